use postroom::prelude::*;

#[protocol]
trait Storage {
    fn pid(&self) -> usize;
}

fn main() {}
