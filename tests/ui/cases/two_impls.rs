use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

#[process]
impl Job {
    #[entry]
    fn run(&mut self) {}

    #[message]
    fn add(&mut self, amount: i64) {
        let _ = amount;
    }
}

fn main() {}
