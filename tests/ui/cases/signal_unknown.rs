use postroom::prelude::*;

struct Tick;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[signal]
    fn on_tick(&mut self, tick: Tick) {
        let _ = tick;
    }
}

fn main() {}
