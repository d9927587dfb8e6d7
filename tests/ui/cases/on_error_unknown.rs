use postroom::prelude::*;

#[process(on_error = "stop")]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn main() {}
