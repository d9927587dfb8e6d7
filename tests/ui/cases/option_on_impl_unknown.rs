use postroom::prelude::*;

#[process]
struct Job;

#[process(workers = 2)]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
