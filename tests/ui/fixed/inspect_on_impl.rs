use postroom::prelude::*;

#[process(inspect)]
struct Account;

#[process]
impl Account {
    #[entry]
    fn open(&mut self) {}
}

fn main() {}
