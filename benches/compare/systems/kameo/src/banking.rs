//! Savina's banking: transfers between accounts. For each of them, one account asks another.

use std::time::Instant;

use ::kameo::prelude::*;

use super::stage::{Begin, Collector, Report, run, spawn, tell};
use crate::kernel::{OPENING, Transfers};
use crate::plan::{Outcome, Plan};

#[derive(Actor)]
struct Account {
    balance: i64,
    teller: ActorRef<Collector>,
}

/// Requests a transfer of 1 to the given account.
struct Transfer(ActorRef<Account>);

impl Message<Transfer> for Account {
    type Reply = ();

    /// The request and its answer are two messages. If this handler awaited an `ask`, the account could not handle
    /// requests in the meantime, and two accounts that asked each other would wait forever.
    async fn handle(&mut self, Transfer(destination): Transfer, context: &mut Context<Self, ()>) {
        self.balance -= 1;
        tell(&destination, Take { source: context.actor_ref().clone() }).await;
    }
}

/// Asks the account to take 1, and to answer.
struct Take {
    source: ActorRef<Account>,
}

impl Message<Take> for Account {
    type Reply = ();

    async fn handle(&mut self, Take { source }: Take, _: &mut Context<Self, ()>) {
        self.balance += 1;
        tell(&source, Taken).await;
    }
}

struct Taken;

impl Message<Taken> for Account {
    type Reply = ();

    async fn handle(&mut self, Taken: Taken, _: &mut Context<Self, ()>) {
        tell(&self.teller, Report(1)).await;
    }
}

struct Balance;

impl Message<Balance> for Account {
    type Reply = i64;

    async fn handle(&mut self, Balance: Balance, _: &mut Context<Self, i64>) -> i64 {
        self.balance
    }
}

/// An actor that orders all transfers. The answers go to a [`Collector`].
#[derive(Actor)]
struct Teller {
    transfers: u64,
    accounts: Vec<ActorRef<Account>>,
}

impl Message<Begin> for Teller {
    type Reply = ();

    async fn handle(&mut self, Begin: Begin, _: &mut Context<Self, ()>) {
        for (from, to) in Transfers::new(self.transfers, self.accounts.len() as u64) {
            tell(&self.accounts[from], Transfer(self.accounts[to].clone())).await;
        }
    }
}

pub fn banking(plan: &Plan) -> Outcome {
    run(plan, async {
        let (collector, ended) = Collector::spawn_for(plan.size);
        let account = |_| spawn(plan.bound, Account { balance: OPENING, teller: collector.clone() });
        let accounts: Vec<_> = (0..plan.width).map(account).collect();
        for account in &accounts {
            account.wait_for_startup().await;
        }
        let teller = spawn(plan.bound, Teller { transfers: plan.size, accounts: accounts.clone() });
        teller.wait_for_startup().await;
        let start = Instant::now();
        tell(&teller, Begin).await;
        let end = ended.await.expect("all transfers are done");
        let mut balances = 0;
        for account in &accounts {
            balances += account.ask(Balance).send().await.expect("an account answers");
        }
        assert_eq!(balances, OPENING * plan.width as i64, "no money is made or lost");
        end.outcome(start, plan.size)
    })
}
