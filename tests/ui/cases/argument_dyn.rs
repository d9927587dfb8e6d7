use postroom::prelude::*;

trait Shape {}

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn draw(&mut self, _shape: dyn Shape) {}
}

fn main() {}
