use postroom::prelude::*;

#[process]
struct Cache<V>(Option<V>);

#[process(remote)]
impl<V: Clone + Send + 'static> Cache<V> {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn get(&self) -> Option<V> {
        self.0.clone()
    }
}

fn main() {}
