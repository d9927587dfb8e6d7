use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn add<T: Into<i64>>(&mut self, amount: T) -> i64 {
        amount.into()
    }
}

fn main() {}
