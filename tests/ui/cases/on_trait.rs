use postroom::prelude::*;

#[process]
trait Job {}

fn main() {}
