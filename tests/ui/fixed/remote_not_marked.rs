use postroom::prelude::*;
use postroom::remote::Remote;

#[process]
struct Account;

#[process(remote)]
impl Account {
    #[entry]
    fn serve(&mut self) {}
}

fn export<P: Remote>() {}

fn main() {
    export::<Account>();
}
