use postroom::prelude::*;

struct Job;

impl Job {
    #[message]
    fn add(&mut self) {}
}

fn main() {}
