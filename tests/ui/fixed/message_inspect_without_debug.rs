use postroom::prelude::*;

struct Secret;

#[process]
struct Account;

#[process]
impl Account {
    #[entry]
    fn open(&mut self) {}

    #[message(inspect)]
    fn sign(&mut self, number: u64, #[inspect(skip)] key: Secret) {
        let _ = (number, key);
    }
}

fn main() {}
