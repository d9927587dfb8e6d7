use postroom::prelude::*;

#[protocol]
trait Storage {
    fn clear(&mut self);
}

fn main() {}
