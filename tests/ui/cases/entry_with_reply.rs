use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self, opening: i64, _reply: Reply<i64>) {
        let _ = opening;
    }
}

fn main() {}
