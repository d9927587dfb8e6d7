use postroom::prelude::*;

#[process]
const JOB: u8 = 0;

fn main() {}
