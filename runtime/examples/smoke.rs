use postroom::prelude::*;
use std::time::Duration;

#[process]
struct Account { balance: i64 }

#[process]
impl Account {
    #[entry]
    fn serve(&mut self, opening: i64) { self.balance = opening; }
    #[entry]
    async fn accrue(&mut self, ctx: &mut Context<Self>, rate: i64, rounds: u32) -> Result<i64, String> {
        for _ in 0..rounds { ctx.sleep(Duration::from_millis(5)).await; self.balance += rate; }
        Ok(self.balance)
    }
    #[message]
    fn deposit(&mut self, amount: i64) -> i64 { self.balance += amount; self.balance }
    #[message]
    async fn ask(&mut self, other: Address<Account>) -> i64 {
        other.deposit(1).await.unwrap_or(-1)
    }
    #[message]
    fn boom(&mut self) -> i64 { panic!("boom {}", self.balance) }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().workers(2).build()?;
    let account = runtime.spawn(Account { balance: 0 }).named("acct-1").serve(100)?;
    account.deposit(20).send()?;
    println!("{:?}", account.deposit(5).wait());
    runtime.send(account.pid(), AccountDeposit { amount: 5 })?;
    println!("{:?}", account.deposit(0).wait());
    let end = runtime.spawn(Account { balance: 9 }).accrue(1, 12)?.wait()?;
    println!("{end}");
    let other = runtime.spawn(Account { balance: 0 }).serve(1000)?;
    println!("{:?}", account.ask(other).wait());
    println!("{:?}", other.boom().wait());
    println!("{:?}", other.deposit(0).wait());
    runtime.register_with("Account", || Account { balance: 0 });
    println!("{:?}", runtime.start("Account", "serve", postroom::payloads![100]));
    println!("{:?}", runtime.start("Account", "sreve", postroom::payloads![100]).map_err(|e| e.to_string()));
    println!("{}", runtime.shutdown()?);
    Ok(())
}
