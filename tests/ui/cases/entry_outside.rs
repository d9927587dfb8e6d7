use postroom::prelude::*;

struct Job;

impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
