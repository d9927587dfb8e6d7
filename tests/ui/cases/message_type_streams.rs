use postroom::prelude::*;

struct Tick;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message(Tick)]
    fn tick(&mut self, tick: Tick, replies: Replies<u8>) {
        let _ = (tick, replies);
    }
}

fn main() {}
