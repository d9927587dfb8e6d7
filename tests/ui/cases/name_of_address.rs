use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn pid(&self) -> u32 {
        7
    }
}

fn main() {}
