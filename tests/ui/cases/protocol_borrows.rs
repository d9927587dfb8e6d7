use postroom::prelude::*;

#[protocol]
trait Storage {
    fn get(&self, key: &str) -> usize;
}

fn main() {}
