use postroom::prelude::*;

#[protocol]
trait Storage<K> {
    fn get(&self, key: K) -> usize;
}

fn main() {}
