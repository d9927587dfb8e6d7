use postroom::prelude::*;

struct Money(i64);
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Refused;
struct Tick;

#[process]
struct Account;

#[process(remote)]
impl Account {
    #[entry(local)]
    fn serve(&mut self, opening: Money) {
        let _ = opening.0;
    }

    #[message]
    fn balance(&self) -> Result<i64, Refused> {
        Err(Refused)
    }

    #[message(local)]
    fn money(&self, reply: Reply<Money>) {
        reply.send(Money(1));
    }

    #[message(Tick, local)]
    fn tick(&mut self, _tick: Tick) {}
}

fn main() {}
