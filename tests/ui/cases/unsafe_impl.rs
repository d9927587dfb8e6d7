use postroom::prelude::*;

#[process]
struct Job;

#[process]
unsafe impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
