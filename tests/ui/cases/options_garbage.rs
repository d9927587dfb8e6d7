use postroom::prelude::*;

#[process(1)]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
