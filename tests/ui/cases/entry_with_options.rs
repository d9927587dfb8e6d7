use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry(named)]
    fn serve(&mut self) {}
}

fn main() {}
