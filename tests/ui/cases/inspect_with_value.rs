use postroom::prelude::*;

#[process(inspect = true)]
struct Account;

#[process]
impl Account {
    #[entry]
    fn open(&mut self) {}
}

fn main() {}
