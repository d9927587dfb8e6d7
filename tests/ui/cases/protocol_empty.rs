use postroom::prelude::*;

#[protocol]
trait Storage {}

fn main() {}
