use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn map(&mut self, map: impl Fn(i64) -> i64) -> i64 {
        map(1)
    }
}

fn main() {}
