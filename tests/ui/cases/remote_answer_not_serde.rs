use postroom::prelude::*;

struct Money(i64);
#[derive(Debug)]
struct Refused;
struct Tick;

#[process]
struct Account;

#[process(remote)]
impl Account {
    #[entry]
    fn serve(&mut self, opening: Money) {
        let _ = opening.0;
    }

    #[message]
    fn balance(&self) -> Result<i64, Refused> {
        Err(Refused)
    }

    #[message]
    fn money(&self, reply: Reply<Money>) {
        reply.send(Money(1));
    }

    #[message(Tick)]
    fn tick(&mut self, _tick: Tick) {}
}

fn main() {}
