use postroom::prelude::*;

#[protocol]
trait Storage {
    type Key;
    fn get(&self, key: String) -> usize;
}

fn main() {}
