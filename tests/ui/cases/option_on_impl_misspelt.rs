use postroom::prelude::*;

#[process]
struct Job;

#[process(crat = postroom)]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
