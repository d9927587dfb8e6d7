use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    unsafe fn add(&mut self, amount: i64) -> i64 {
        amount
    }
}

fn main() {}
