use postroom::prelude::*;

#[process]
fn job() {}

fn main() {}
