use postroom::prelude::*;

#[process]
struct Account {
    #[inspect(skip)]
    balance: u64,
}

#[process]
impl Account {
    #[entry]
    fn open(&mut self) {
        self.balance = 0;
    }
}

fn main() {}
