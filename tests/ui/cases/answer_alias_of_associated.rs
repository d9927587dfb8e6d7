use postroom::prelude::*;

trait Backend: Send + 'static {
    type Row: Send + 'static;
}

type Rows<B> = Vec<<B as Backend>::Row>;

#[process]
struct Store<B: Backend> {
    backend: B,
}

#[process]
impl<B: Backend> Store<B> {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn rows(&mut self) -> Rows<B> {
        Vec::new()
    }
}

fn main() {}
