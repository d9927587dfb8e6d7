use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn rename(&mut self, name: &str) -> usize {
        name.len()
    }
}

fn main() {}
