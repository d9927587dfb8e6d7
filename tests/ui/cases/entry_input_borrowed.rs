use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self, name: &str) {
        let _ = name;
    }
}

fn main() {}
