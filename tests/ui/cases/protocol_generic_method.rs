use postroom::prelude::*;

#[protocol]
trait Storage {
    fn get<K>(&self, key: K) -> usize;
}

fn main() {}
