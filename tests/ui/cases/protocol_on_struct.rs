use postroom::prelude::*;

#[protocol]
struct Job;

fn main() {}
