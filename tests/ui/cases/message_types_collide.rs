use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn get_1(&mut self) {}

    #[message]
    fn get1(&mut self) {}
}

fn main() {}
