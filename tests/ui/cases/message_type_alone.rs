use postroom::prelude::*;

struct Tick;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message(Tick)]
    fn tick(&mut self) {
        let _ = Tick;
    }
}

fn main() {}
