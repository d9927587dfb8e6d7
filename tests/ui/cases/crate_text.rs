use postroom::prelude::*;

#[process(crate = "postroom")]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
