use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn add(&mut self, amount: i64) -> i64
    where Self: Sized {
        amount
    }
}

fn main() {}
