use postroom::prelude::*;

#[process(name = "")]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
