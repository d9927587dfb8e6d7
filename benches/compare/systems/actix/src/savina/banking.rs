//! A teller whose transfers go from account to account.

use std::sync::Arc;
use std::time::Instant;

use ::actix::prelude::*;

use super::super::finish::{Finish, finish};
use super::super::{Begin, Peers, in_system, nobody};
use crate::kernel::{OPENING, Transfers};
use crate::plan::{Outcome, Plan};

#[derive(Message)]
#[rtype(result = "()")]
struct Know(Peers<Account>);

/// Orders the source of a transfer to give 1 to the account in this message.
#[derive(Message)]
#[rtype(result = "()")]
struct Transfer {
    to: usize,
}

/// Asks the destination of a transfer to take 1.
#[derive(Message)]
#[rtype(result = "()")]
struct Take {
    from: usize,
}

/// Tells the source that the destination has taken the money.
#[derive(Message)]
#[rtype(result = "()")]
struct Taken;

/// Tells the teller that a transfer is done.
#[derive(Message)]
#[rtype(result = "()")]
struct Done;

#[derive(Message)]
#[rtype(result = "i64")]
struct GetBalance;

struct Account {
    index: usize,
    balance: i64,
    accounts: Peers<Account>,
    teller: Addr<Teller>,
}

impl Actor for Account {
    type Context = Context<Self>;
}

impl Handler<Know> for Account {
    type Result = ();

    fn handle(&mut self, Know(accounts): Know, _: &mut Context<Self>) {
        self.accounts = accounts;
    }
}

impl Handler<Transfer> for Account {
    type Result = ();

    fn handle(&mut self, Transfer { to }: Transfer, _: &mut Context<Self>) {
        self.balance -= 1;
        self.accounts[to].do_send(Take { from: self.index });
    }
}

impl Handler<Take> for Account {
    type Result = ();

    fn handle(&mut self, Take { from }: Take, _: &mut Context<Self>) {
        self.balance += 1;
        self.accounts[from].do_send(Taken);
    }
}

impl Handler<Taken> for Account {
    type Result = ();

    fn handle(&mut self, _: Taken, _: &mut Context<Self>) {
        self.teller.do_send(Done);
    }
}

impl Handler<GetBalance> for Account {
    type Result = i64;

    fn handle(&mut self, _: GetBalance, _: &mut Context<Self>) -> i64 {
        self.balance
    }
}

struct Teller {
    transfers: Transfers,
    size: u64,
    done: u64,
    accounts: Peers<Account>,
    finish: Option<Finish>,
}

impl Actor for Teller {
    type Context = Context<Self>;
}

impl Handler<Know> for Teller {
    type Result = ();

    fn handle(&mut self, Know(accounts): Know, _: &mut Context<Self>) {
        self.accounts = accounts;
    }
}

impl Handler<Begin> for Teller {
    type Result = ();

    fn handle(&mut self, _: Begin, _: &mut Context<Self>) {
        for (from, to) in self.transfers.by_ref() {
            self.accounts[from].do_send(Transfer { to });
        }
    }
}

impl Handler<Done> for Teller {
    type Result = ();

    fn handle(&mut self, _: Done, _: &mut Context<Self>) {
        self.done += 1;
        if self.done == self.size {
            self.finish.take().expect("a teller should finish once").with(self.done);
        }
    }
}

/// Spreads the accounts over all arbiters. Their queues are long, so hardly any message wakes a thread.
pub fn banking(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |places| {
        let (finish, finished) = finish();
        let transfers = Transfers::new(plan.size, plan.width);
        let teller = Teller { transfers, size: plan.size, done: 0, accounts: nobody(), finish: Some(finish) }.start();
        let accounts: Peers<Account> = (0..plan.width as usize)
            .map(|index| {
                let account = Account { index, balance: OPENING, accounts: nobody(), teller: teller.clone() };
                places.start(index, account)
            })
            .collect();
        teller.do_send(Know(Arc::clone(&accounts)));
        for account in accounts.iter() {
            account.do_send(Know(Arc::clone(&accounts)));
        }
        let start = Instant::now();
        teller.do_send(Begin);
        let outcome = finished.outcome(start, plan.size).await;
        let mut balances = 0;
        for account in accounts.iter() {
            balances += account.send(GetBalance).await.expect("an account should answer");
        }
        assert_eq!(balances, OPENING * plan.width as i64, "no money should come or go");
        outcome
    })
}
