use postroom::prelude::*;

#[process]
struct Job;

#[process]
impl Job {
    #[entry]
    fn serve(&mut self) {}
}

fn start(runtime: &Runtime) {
    let _ = runtime.spawn(Job);
}

fn main() {}
