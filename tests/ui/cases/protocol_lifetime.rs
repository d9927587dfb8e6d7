use postroom::prelude::*;

#[protocol]
trait Storage<'a> {
    fn get(&self, key: String) -> usize;
}

fn main() {}
