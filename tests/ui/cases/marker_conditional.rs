use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[cfg_attr(all(), message)]
    fn work(&mut self) {}
}

fn main() {}
