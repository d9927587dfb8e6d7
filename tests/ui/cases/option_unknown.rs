use postroom::prelude::*;

#[process(workers = 2)]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
