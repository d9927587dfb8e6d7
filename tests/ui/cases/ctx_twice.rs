use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn add(&mut self, _ctx: &mut Context<Self>, _again: &mut Context<Self>) {}
}

fn main() {}
