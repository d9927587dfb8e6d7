use postroom::prelude::*;

#[process(nam = "job")]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
