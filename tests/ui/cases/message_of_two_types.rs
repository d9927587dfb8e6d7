use postroom::prelude::*;

struct Tick;
struct Tock;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message(Tick, Tock)]
    fn tick(&mut self, tick: Tick) {
        let _ = (tick, Tock);
    }
}

fn main() {}
