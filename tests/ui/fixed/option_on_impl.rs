use postroom::prelude::*;

#[process(name = "job")]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
