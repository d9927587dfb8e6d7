use postroom::prelude::*;

#[protocol]
trait Storage {
    fn get(&self, ctx: &mut Context<Self>, key: String) -> usize;
}

fn main() {}
