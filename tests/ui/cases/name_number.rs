use postroom::prelude::*;

#[process(name = 1)]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
