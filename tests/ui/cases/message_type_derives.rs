use postroom::prelude::*;

struct Tick;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message(Tick)]
    #[derive(Clone)]
    fn tick(&mut self, tick: Tick) {
        let _ = tick;
    }
}

fn main() {}
