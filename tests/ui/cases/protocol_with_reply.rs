use postroom::prelude::*;

#[protocol]
trait Storage {
    fn get(&self, key: String, reply: Reply<usize>);
}

fn main() {}
