use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn numbers(&self) -> impl Iterator<Item = u8> {
        Box::new(std::iter::empty())
    }
}

fn main() {}
