use postroom::prelude::*;

#[process]
struct Account;

#[process(remote)]
impl Account {
    #[entry]
    fn serve(&mut self) {}
}

#[protocol(remote)]
trait Audited {
    fn audit(&self);
}

#[process]
struct Ledger;

#[process(protocols(Audited))]
impl Ledger {
    #[entry]
    fn serve(&mut self) {}
}

#[process]
impl Audited for Ledger {
    fn audit(&self) {}
}

fn main() {}
