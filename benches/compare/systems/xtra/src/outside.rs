//! Calls and messages from tasks, from handlers of axum, and from a thread.

use std::sync::Arc;

use ::axum::Router;
use ::axum::extract::{Path, State};
use ::axum::http::StatusCode;
use ::axum::routing::post;
use ::xtra::{Actor, Address, Context, Handler};
use compare_frame::outside::{self, ACCOUNTS, DEPOSIT, Handled};
use tokio::sync::OwnedSemaphorePermit;

use super::calls::Callee;
use super::{mailbox, tell};
use crate::plan::{Outcome, Plan};

pub fn ask_from_tasks(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let callee = |_| ::xtra::spawn_tokio(Callee, mailbox(plan.bound));
        let callees: Vec<_> = (0..outside::called(&plan)).map(callee).collect();
        let task = |number: usize, calls| {
            let callee = callees[number % callees.len()].clone();
            async move {
                let mut sum = 0;
                for number in 0..calls {
                    sum += callee.send(number).await.expect("an answer");
                }
                sum
            }
        };
        outside::ask_from_tasks(&plan, task).await
    })
}

struct Receiver(Handled);

impl Actor for Receiver {
    type Stop = ();

    async fn stopped(self) {}
}

impl Handler<u64> for Receiver {
    type Return = ();

    async fn handle(&mut self, number: u64, _context: &mut Context<Self>) {
        self.0.note(number);
    }
}

pub fn tell_from_tasks(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let (handled, ended) = Handled::new(plan.size);
        let receiver = ::xtra::spawn_tokio(Receiver(handled), mailbox(plan.bound));
        let task = |messages| {
            let receiver = receiver.clone();
            async move {
                for number in 0..messages {
                    tell(&receiver, number).await;
                }
            }
        };
        outside::tell_from_tasks(&plan, ended, task).await
    })
}

struct Counter {
    count: u64,
}

impl Actor for Counter {
    type Stop = ();

    async fn stopped(self) {}
}

struct Add {
    amount: u64,
    _permit: OwnedSemaphorePermit,
}

impl Handler<Add> for Counter {
    type Return = ();

    async fn handle(&mut self, add: Add, _context: &mut Context<Self>) {
        self.count += add.amount;
    }
}

pub fn tell_in_turn(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let counter = |_| ::xtra::spawn_tokio(Counter { count: 0 }, mailbox(plan.bound));
        let counters: Vec<_> = (0..plan.width).map(counter).collect();
        let send = |number: usize, permit| tell(&counters[number], Add { amount: 1, _permit: permit });
        outside::tell_in_turn(&plan, send).await
    })
}

/// Blocks in the runtime's `block_on`, since xtra has no blocking call of its own.
pub fn ask_from_thread(plan: &Plan) -> Outcome {
    let runtime = outside::tokio(plan.workers);
    let callee = runtime.block_on(async { ::xtra::spawn_tokio(Callee, mailbox(plan.bound)) });
    outside::ask_from_thread(plan, |number| runtime.block_on(async { callee.send(number).await.expect("an answer") }))
}

struct Account {
    balance: u64,
}

impl Actor for Account {
    type Stop = ();

    async fn stopped(self) {}
}

struct Deposit(u64);

impl Handler<Deposit> for Account {
    type Return = u64;

    async fn handle(&mut self, Deposit(amount): Deposit, _context: &mut Context<Self>) -> u64 {
        self.balance += amount;
        self.balance
    }
}

type Accounts = Arc<[Address<Account>]>;

async fn deposit(
    State(accounts): State<Accounts>,
    Path((account, amount)): Path<(usize, u64)>,
) -> Result<String, StatusCode> {
    let account = accounts.get(account).ok_or(StatusCode::NOT_FOUND)?;
    let balance = account.send(Deposit(amount)).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(balance.to_string())
}

pub fn axum(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let account = |_| ::xtra::spawn_tokio(Account { balance: 0 }, mailbox(plan.bound));
        let accounts: Accounts = (0..ACCOUNTS).map(account).collect();
        outside::axum(&plan, Router::new().route(DEPOSIT, post(deposit)).with_state(accounts)).await
    })
}
