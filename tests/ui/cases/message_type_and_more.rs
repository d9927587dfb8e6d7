use postroom::prelude::*;

struct Tick;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message(Tick)]
    fn tick(&mut self, tick: Tick, at: u64) {
        let _ = (tick, at);
    }
}

fn main() {}
