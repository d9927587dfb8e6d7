use postroom::prelude::*;

#[process]
struct Job;

fn main() {}
