//! One struct, several entries: the spawner decides what the process does.
//!
//! ```text
//! cargo run --example entries
//! ```

use postroom::prelude::*;

#[process]
#[derive(Default)]
struct Account {
    balance: i64,
}

#[derive(Debug, thiserror::Error)]
#[error("{0} asked for, {1} there")]
struct Overdrawn(i64, i64);

#[process]
impl Account {
    /// A sync entry: it sets up the process, which then serves messages until it is stopped.
    #[entry]
    fn serve(&mut self, opening: i64) {
        self.balance = opening;
    }

    /// An async entry: the process exits when the body returns, and the returned value is its result.
    #[entry]
    async fn save(&mut self, from: Address<Account>, rate: i64, rounds: u32) -> Result<i64, CallError<Overdrawn>> {
        for _ in 0..rounds {
            from.withdraw(rate).await?;
            self.balance += rate;
        }
        Ok(self.balance)
    }

    #[message]
    fn withdraw(&mut self, amount: i64) -> Result<i64, Overdrawn> {
        if amount > self.balance {
            return Err(Overdrawn(amount, self.balance));
        }
        self.balance -= amount;
        Ok(self.balance)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::new()?;
    let account = runtime.spawn(Account::default()).serve(100)?;
    println!("left: {}", account.withdraw(30).wait()?);

    for _ in 0..2 {
        match runtime.spawn(Account::default()).save(account, 20, 2)?.wait() {
            Ok(saved) => println!("saved: {saved}"),
            Err(error) => println!("saving failed: {error}"),
        }
    }
    Ok(())
}
