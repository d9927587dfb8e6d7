use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    async fn run(&mut self) {}

    #[message]
    async fn wait(&mut self) {}

    #[signal]
    async fn on_cancel(&mut self, _cancel: Cancel) {}
}

fn main() {}
