use postroom::prelude::*;

#[process]
struct Job;

#[process(name = "job")]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
