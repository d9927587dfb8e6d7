use postroom::prelude::*;

#[protocol]
trait Storage {
    async fn get(&self, key: String) -> usize;
}

fn main() {}
