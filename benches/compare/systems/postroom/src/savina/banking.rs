//! Transfers between accounts.

use crate::kernel::{OPENING, Transfers};
use crate::plan::{Outcome, Plan};
use crate::{BATCH, finish::Finish};
use postroom::prelude::*;
use std::time::Instant;

/// An account. A deposit and its answer are two messages, as in the programs of all other systems. If accounts awaited
/// the answers, two accounts could wait for each other.
#[process]
struct Account {
    balance: i64,
    teller: Address<Teller>,
}

#[process]
impl Account {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn transfer(&mut self, ctx: &mut Context<Self>, to: Address<Account>, amount: i64) {
        self.balance -= amount;
        to.deposit(ctx.address(), amount).send().expect("the account lives");
    }

    #[message]
    fn deposit(&mut self, from: Address<Account>, amount: i64) {
        self.balance += amount;
        from.deposited().send().expect("the account lives");
    }

    #[message]
    fn deposited(&mut self) {
        self.teller.transferred().send().expect("the teller lives");
    }

    #[message]
    fn balance(&self) -> i64 {
        self.balance
    }
}

#[process]
struct Teller {
    accounts: Vec<Address<Account>>,
    transfers: Transfers,
    orders: u64,
    transferred: u64,
    done: Recipient<u64>,
}

#[process]
impl Teller {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn meet(&mut self, accounts: Vec<Address<Account>>) {
        self.accounts = accounts;
    }

    #[message]
    fn order(&mut self, ctx: &mut Context<Self>, left: u64) {
        let now = left.min(BATCH);
        for (from, to) in self.transfers.by_ref().take(now as usize) {
            let [from, to] = [from, to].map(|index| self.accounts[index]);
            from.transfer(to, 1).send().expect("the account lives");
        }
        if left > now {
            ctx.address().order(left - now).send().expect("this process lives");
        }
    }

    #[message]
    fn transferred(&mut self) {
        self.transferred += 1;
        if self.transferred == self.orders {
            self.done.send(self.transferred).expect("somebody waits");
        }
    }
}

pub fn banking(runtime: &Runtime, plan: &Plan) -> Outcome {
    let mut finish = Finish::new();
    let teller = Teller {
        accounts: Vec::new(),
        transfers: Transfers::new(plan.size, plan.width),
        orders: plan.size,
        transferred: 0,
        done: finish.recipient(),
    };
    let teller = runtime.spawn(teller).serve().expect("a teller");
    let accounts: Vec<_> = (0..plan.width)
        .map(|_| runtime.spawn(Account { balance: OPENING, teller }).serve().expect("an account"))
        .collect();
    teller.meet(accounts.clone()).wait().expect("a living teller");
    let start = Instant::now();
    teller.order(plan.size).send().expect("a living teller");
    let check = finish.wait();
    let elapsed = start.elapsed();
    let balances: i64 = accounts.iter().map(|account| account.balance().wait().expect("a living account")).sum();
    assert_eq!(balances, OPENING * plan.width as i64, "money neither comes nor goes");
    Outcome { elapsed, operations: plan.size, check, ..Outcome::default() }
}
