use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) -> (i64, i64) {
        panic!()
    }
}

fn main() {}
