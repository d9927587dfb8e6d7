use postroom::prelude::*;

#[process(remote)]
struct Account;

#[process]
impl Account {
    #[entry]
    fn serve(&mut self) {}
}

#[protocol]
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

#[process(remote)]
impl Audited for Ledger {
    fn audit(&self) {}
}

fn main() {}
