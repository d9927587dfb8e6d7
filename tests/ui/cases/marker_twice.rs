use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    #[message]
    fn add(&mut self, amount: i64) {
        let _ = amount;
    }
}

fn main() {}
