use postroom::prelude::*;

#[process(inspect)]
enum Account {
    Closed,
    Open(#[inspect(hide)] u64),
}

#[process]
impl Account {
    #[entry]
    fn open(&mut self) {
        if let Self::Closed = self {
            *self = Self::Open(0);
        }
    }
}

fn main() {}
