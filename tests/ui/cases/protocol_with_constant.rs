use postroom::prelude::*;

#[protocol]
trait Storage {
    const SIZE: usize;
    fn get(&self, key: String) -> usize;
}

fn main() {}
