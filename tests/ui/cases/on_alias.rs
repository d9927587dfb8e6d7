use postroom::prelude::*;

#[process]
type Job = u8;

fn main() {}
