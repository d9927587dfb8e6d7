use postroom::prelude::*;

struct Job;

fn start(runtime: &Runtime) {
    let _ = runtime.spawn(Job);
}

fn main() {}
