use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[entry]
    fn run(&mut self) {}

    #[message]
    fn add(&mut self, amount: i64) {
        let _ = amount;
    }
}

fn main() {}
