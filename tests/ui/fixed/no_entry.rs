use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry] pub fn serve(&mut self) {}

    #[message]
    fn add(&mut self, amount: i64) {
        let _ = amount;
    }
}

fn main() {}
