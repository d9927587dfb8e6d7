use postroom::prelude::*;

#[process]
struct Account;

#[process]
impl Account {
    #[entry]
    fn open(&mut self, #[inspect(skip)] start: u64) {
        let _ = start;
    }

    #[message(inspect = true)]
    fn sign(&mut self, #[inspect(hide)] key: u64) {
        let _ = key;
    }
}

fn main() {}
