use postroom::prelude::*;

#[process]
struct Job;

impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
