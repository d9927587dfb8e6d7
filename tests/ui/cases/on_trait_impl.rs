use postroom::prelude::*;

struct Job;

#[process]
impl Default for Job {
    fn default() -> Self {
        Job
    }
}

fn main() {}
