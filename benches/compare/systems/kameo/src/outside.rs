//! Calls and messages from tasks, from handlers of axum, and from a thread.

use std::sync::Arc;

use ::axum::Router;
use ::axum::extract::{Path, State};
use ::axum::http::StatusCode;
use ::axum::routing::post;
use ::kameo::prelude::*;
use compare_frame::outside::{self, ACCOUNTS, DEPOSIT, Handled};
use tokio::sync::OwnedSemaphorePermit;

use super::calls::{Callee, Question};
use super::stage::{spawn, tell};
use crate::plan::{Outcome, Plan};

pub fn ask_from_tasks(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let callees: Vec<_> = (0..outside::called(&plan)).map(|_| spawn(plan.bound, Callee)).collect();
        let task = |number: usize, calls| {
            let callee = callees[number % callees.len()].clone();
            async move {
                let mut sum = 0;
                for number in 0..calls {
                    sum += callee.ask(Question(number)).send().await.expect("the callee answers");
                }
                sum
            }
        };
        outside::ask_from_tasks(&plan, task).await
    })
}

#[derive(Actor)]
struct Receiver(Handled);

struct Number(u64);

impl Message<Number> for Receiver {
    type Reply = ();

    async fn handle(&mut self, Number(number): Number, _: &mut Context<Self, ()>) {
        self.0.note(number);
    }
}

pub fn tell_from_tasks(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let (handled, ended) = Handled::new(plan.size);
        let receiver = spawn(plan.bound, Receiver(handled));
        let task = |messages| {
            let receiver = receiver.clone();
            async move {
                for number in 0..messages {
                    tell(&receiver, Number(number)).await;
                }
            }
        };
        outside::tell_from_tasks(&plan, ended, task).await
    })
}

#[derive(Actor)]
struct Counter {
    count: u64,
}

struct Add {
    amount: u64,
    _permit: OwnedSemaphorePermit,
}

impl Message<Add> for Counter {
    type Reply = ();

    async fn handle(&mut self, add: Add, _: &mut Context<Self, ()>) {
        self.count += add.amount;
    }
}

pub fn tell_in_turn(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let counters: Vec<_> = (0..plan.width).map(|_| spawn(plan.bound, Counter { count: 0 })).collect();
        let send = |number: usize, permit| tell(&counters[number], Add { amount: 1, _permit: permit });
        outside::tell_in_turn(&plan, send).await
    })
}

pub fn ask_from_thread(plan: &Plan) -> Outcome {
    let runtime = outside::tokio(plan.workers);
    let callee = runtime.block_on(async { spawn(plan.bound, Callee) });
    outside::ask_from_thread(plan, |number| callee.ask(Question(number)).blocking_send().expect("the callee answers"))
}

#[derive(Actor)]
struct Account {
    balance: u64,
}

struct Deposit(u64);

impl Message<Deposit> for Account {
    type Reply = u64;

    async fn handle(&mut self, Deposit(amount): Deposit, _: &mut Context<Self, u64>) -> u64 {
        self.balance += amount;
        self.balance
    }
}

type Accounts = Arc<[ActorRef<Account>]>;

async fn deposit(
    State(accounts): State<Accounts>,
    Path((account, amount)): Path<(usize, u64)>,
) -> Result<String, StatusCode> {
    let account = accounts.get(account).ok_or(StatusCode::NOT_FOUND)?;
    let balance = account.ask(Deposit(amount)).send().await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(balance.to_string())
}

pub fn axum(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let accounts: Accounts = (0..ACCOUNTS).map(|_| spawn(plan.bound, Account { balance: 0 })).collect();
        outside::axum(&plan, Router::new().route(DEPOSIT, post(deposit)).with_state(accounts)).await
    })
}
