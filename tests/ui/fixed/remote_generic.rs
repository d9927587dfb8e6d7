use postroom::prelude::*;

#[process]
struct Cache<V>(Option<V>);

#[process]
impl<V: Clone + Send + 'static> Cache<V> {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn get(&self) -> Option<V> {
        self.0.clone()
    }
}

#[process]
struct Names(Option<String>);

#[process(remote)]
impl Names {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn get(&self) -> Option<String> {
        self.0.clone()
    }
}

fn main() {
    let _ = Cache(Some(1));
}
