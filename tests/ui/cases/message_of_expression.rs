use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message(1 + 2)]
    fn tick(&mut self) {}
}

fn main() {}
