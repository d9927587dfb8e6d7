use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[message]
    fn add(&mut self, amount: i64) {
        let _ = amount;
    }
}

fn main() {}
