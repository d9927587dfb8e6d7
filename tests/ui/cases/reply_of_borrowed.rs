use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn fetch(&mut self, reply: Reply<&str>) {
        let _ = reply;
    }
}

fn main() {}
