use postroom::prelude::*;

#[protocol(crat = ::postroom)]
trait Storage {
    fn get(&self) -> usize;
}

fn main() {}
