use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn rename(&mut self, names: Vec<&str>) -> usize {
        names.len()
    }
}

fn main() {}
