use postroom::prelude::*;

#[process]
mod job {}

fn main() {}
