use postroom::prelude::*;

#[protocol]
trait Storage {
    fn copy(&self, from: Address<dyn Storage>) -> usize;
}

fn main() {}
