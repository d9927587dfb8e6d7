use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn add(&mut self, #[cfg(any())] _amount: i64) {}
}

fn main() {}
