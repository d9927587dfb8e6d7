use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message = "Tick"]
    fn tick(&mut self) {}
}

fn main() {}
