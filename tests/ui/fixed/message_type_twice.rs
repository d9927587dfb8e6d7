use postroom::prelude::*;

struct Tick;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message(Tick)]
    fn first(&mut self, tick: Tick) {
        let _ = tick;
    }

    #[message]
    fn second(&mut self, tick: Tick) {
        let _ = tick;
    }
}

fn main() {}
