use postroom::prelude::*;

#[process]
struct Account;

#[process]
impl Account {
    #[entry]
    fn open(&mut self) {}

    #[message]
    fn sign(&mut self, #[inspect(skip)] key: u64) {
        let _ = key;
    }
}

fn main() {}
