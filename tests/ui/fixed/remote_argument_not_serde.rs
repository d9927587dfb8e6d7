use postroom::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
pub struct Money(i64);

#[process]
struct Account;

#[process(remote)]
impl Account {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn deposit(&mut self, amount: Money, from: Pid) {
        let _ = (amount.0, from);
    }
}

fn main() {}
