use postroom::prelude::*;

struct Key([u8; 32]);

#[process(inspect)]
struct Account {
    balance: u64,
    key: Key,
}

#[process]
impl Account {
    #[entry]
    fn open(&mut self) {
        self.balance = u64::from(self.key.0[0]);
    }
}

fn main() {}
