use postroom::prelude::*;

#[protocol]
trait Storage {
    async fn get(&self, key: &str) -> usize;
    fn put(&mut self, ctx: &mut Context<Self>, value: &[u8]) { let _ = value; }
}

fn main() {}
