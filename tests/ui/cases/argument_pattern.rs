use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn add(&mut self, (_left, _right): (i64, i64)) {}
}

fn main() {}
