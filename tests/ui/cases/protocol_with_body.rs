use postroom::prelude::*;

#[protocol]
trait Storage {
    fn get(&self, key: String) -> usize { key.len() }
}

fn main() {}
