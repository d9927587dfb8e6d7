use super::Version;
use postroom::prelude::*;
use postroom::test::Sim;

#[process]
struct Account {
    balance: i64,
}

#[process]
impl Account {
    #[entry]
    fn serve(&mut self) {}
    #[message]
    fn deposit(&mut self, amount: i64) {
        self.balance += amount;
    }
    #[message]
    fn balance(&mut self) -> i64 {
        self.balance
    }
}

#[process]
struct Clerk {
    accounts: [Address<Account>; 2],
}

#[process]
impl Clerk {
    #[entry]
    fn serve(&mut self) {}
    /// A process ends between two turns, never within one. So there must be no await between two sends that belong
    /// together.
    #[message]
    async fn transfer(&mut self, amount: i64, version: Version) -> Result<(), ProcessError> {
        let [from, to] = self.accounts;
        if version.is_wrong() {
            from.deposit(-amount).await?;
            to.deposit(amount).await?;
        } else {
            from.deposit(-amount).send()?;
            to.deposit(amount).send()?;
        }
        Ok(())
    }
}

pub fn run(sim: &Sim, version: Version) {
    sim.crash::<Clerk>(0.1);
    let accounts = [(); 2].map(|()| sim.spawn(Account { balance: 100 }).serve().expect("it starts"));
    let clerks = [(); 2].map(|()| sim.spawn(Clerk { accounts }).serve().expect("it starts"));
    for clerk in clerks {
        clerk.transfer(10, version).send().expect("it has started");
    }
    sim.until_idle().expect("the test is no process");
    let sum: i64 = accounts.iter().map(|account| account.balance().wait().expect("it lives")).sum();
    assert_eq!(sum, 200);
}
