use postroom::prelude::*;

#[process]
struct Account;

#[process(inspect)]
impl Account {
    #[entry]
    fn open(&mut self) {}
}

fn main() {}
