use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn write(&mut self, bytes: &[u8]) -> usize {
        bytes.len()
    }
}

fn main() {}
