use postroom::prelude::*;

#[protocol]
trait Storage {
    #[entry]
    fn get(&self, key: String) -> usize;
}

fn main() {}
