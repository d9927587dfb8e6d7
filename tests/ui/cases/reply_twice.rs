use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn fetch(&mut self, reply: Reply<i64>, _again: Reply<i64>) {
        let _ = reply;
    }
}

fn main() {}
