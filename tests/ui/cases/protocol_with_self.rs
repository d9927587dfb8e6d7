use postroom::prelude::*;

#[protocol]
trait Storage {
    fn copy(&self, from: Self) -> usize;
}

fn main() {}
