use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

#[process]
impl Default for Job {
    fn default() -> Self {
        Job
    }
}

fn main() {}
