use postroom::prelude::*;

struct Secret;

#[process]
struct Account;

#[process]
impl Account {
    #[entry]
    fn open(&mut self) {}

    #[message(inspect)]
    fn sign(&mut self, number: u64, key: Secret) {
        let _ = (number, key);
    }
}

fn main() {}
