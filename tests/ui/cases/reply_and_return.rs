use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn fetch(&mut self, reply: Reply<i64>) -> i64 {
        let _ = reply;
        panic!()
    }
}

fn main() {}
