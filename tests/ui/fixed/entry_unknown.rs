use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

pub fn start(runtime: &Runtime) {
    let _ = runtime.spawn(Job).serve();
}

fn main() {}
