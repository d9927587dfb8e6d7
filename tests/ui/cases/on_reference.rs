use postroom::prelude::*;

struct Job;

#[process]
impl &Job {}

fn main() {}
