use postroom::prelude::*;
use std::{thread, time::Duration};

#[process]
struct Account { balance: u64 }

#[process]
impl Account {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn deposit(&mut self, amount: u64) -> u64 { self.balance += amount; self.balance }

    #[message]
    fn split(&self, people: u64) -> u64 { self.balance / people }

    #[signal]
    fn on_cancel(&mut self, ctx: &mut Context<Self>, _cancel: Cancel) {
        println!("closing balance: {}", self.balance);
        ctx.stop();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::new()?;
    let tree: Tree = Supervisor::one_for_one()
        .add(Child::new("account", |spawn| spawn.of(Account { balance: 100 }).serve()).keep_messages())
        .spawn(&runtime)?;
    let account: Address<Account> = tree.child("account")?;

    println!("split failed: {}", account.split(0).wait().is_err());
    let clients: Vec<_> = (0..4).map(|_| thread::spawn(move || {
        for _ in 0..25 { account.deposit(1).send().expect("the service runs"); }
    })).collect();
    for client in clients { client.join().expect("no client panics"); }

    let report = runtime.drain(Duration::from_secs(5))?;
    println!("clean shutdown: {}", report.is_clean());
    Ok(())
}
