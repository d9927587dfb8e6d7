use postroom::prelude::*;

#[process]
#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
