//! Calls and messages from tasks of a Tokio runtime, from handlers of axum, and from a thread.

use super::calls::Adder;
use crate::plan::{Outcome, Plan};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use compare_frame::outside::{self, ACCOUNTS, DEPOSIT, Handled};
use postroom::prelude::*;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

/// Starts a runtime on the threads of the calling task's Tokio runtime.
fn on_tokio(plan: &Plan) -> Runtime {
    Runtime::builder().workers(plan.workers).on_tokio(Handle::current()).build().expect("a Tokio runtime")
}

pub fn ask_from_tasks(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let runtime = on_tokio(&plan);
        let adders: Vec<_> =
            (0..outside::called(&plan)).map(|_| runtime.spawn(Adder).serve().expect("an adder")).collect();
        let task = |number: usize, calls| {
            let adder = adders[number % adders.len()];
            async move {
                let mut sum = 0;
                for number in 0..calls {
                    sum += adder.add(number).await.expect("an answer");
                }
                sum
            }
        };
        outside::ask_from_tasks(&plan, task).await
    })
}

#[process]
struct Receiver {
    handled: Handled,
}

#[process]
impl Receiver {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn number(&mut self, number: u64) {
        self.handled.note(number);
    }
}

pub fn tell_from_tasks(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let runtime = on_tokio(&plan);
        let (handled, ended) = Handled::new(plan.size);
        let receiver = runtime.spawn(Receiver { handled }).serve().expect("a receiver");
        let task = move |messages| async move {
            for number in 0..messages {
                receiver.number(number).send_async().await.expect("a living receiver");
            }
        };
        outside::tell_from_tasks(&plan, ended, task).await
    })
}

#[process]
struct Counter {
    count: u64,
}

#[process]
impl Counter {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn add(&mut self, amount: u64, _permit: OwnedSemaphorePermit) {
        self.count += amount;
    }
}

pub fn tell_in_turn(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let runtime = on_tokio(&plan);
        let counters: Vec<_> =
            (0..plan.width).map(|_| runtime.spawn(Counter { count: 0 }).serve().expect("a counter")).collect();
        let tell = |number: usize, permit| {
            let message = counters[number].add(1, permit);
            async { message.send_async().await.expect("a living counter") }
        };
        outside::tell_in_turn(&plan, tell).await
    })
}

pub fn ask_from_thread(runtime: &Runtime, plan: &Plan) -> Outcome {
    let adder = runtime.spawn(Adder).serve().expect("an adder");
    outside::ask_from_thread(plan, |number| adder.add(number).wait().expect("an answer"))
}

#[process]
struct Account {
    balance: u64,
}

#[process]
impl Account {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn deposit(&mut self, amount: u64) -> u64 {
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
    let balance = account.deposit(amount).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(balance.to_string())
}

pub fn axum(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let runtime = on_tokio(&plan);
        let account = |_| runtime.spawn(Account { balance: 0 }).serve().expect("an account");
        let accounts: Accounts = (0..ACCOUNTS).map(account).collect();
        outside::axum(&plan, Router::new().route(DEPOSIT, post(deposit)).with_state(accounts)).await
    })
}
