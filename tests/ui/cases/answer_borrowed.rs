use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn name(&self) -> &str {
        panic!()
    }
}

fn main() {}
