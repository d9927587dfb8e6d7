use postroom::prelude::*;

struct Tick;
struct Tock;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message(Tick)]
    fn tick(&mut self, tock: Tock) {
        let _ = tock;
    }
}

fn main() {}
