use postroom::prelude::*;

trait Backend: Send + 'static {
    type Row: Send + 'static;
}

#[process]
struct Store<B: Backend> {
    backend: B,
}

#[process]
impl<B: Backend> Store<B> {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn rows(&mut self) -> Vec<B::Row> {
        Vec::new()
    }
}

fn main() {}
