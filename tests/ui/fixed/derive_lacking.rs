use postroom::prelude::*;

#[derive(Clone)]
struct Load;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    #[derive(Clone)]
    fn add(&mut self, load: Load) {
        let _ = load;
    }
}

fn main() {}
