use postroom::prelude::*;

#[process]
struct Job<T> {
    last: Option<T>,
}

#[process]
impl<T: Into<i64> + Send + 'static> Job<T> {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn add(&mut self, amount: T) -> i64 {
        amount.into()
    }
}

fn main() {}
