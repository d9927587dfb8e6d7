//! Calls and messages from tasks, from handlers of axum, and from a thread.

use std::sync::Arc;

use ::axum::Router;
use ::axum::extract::{Path, State};
use ::axum::http::StatusCode;
use ::axum::routing::post;
use ::ractor::rpc::CallResult;
use ::ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use compare_frame::outside::{self, ACCOUNTS, DEPOSIT, Handled};
use tokio::sync::OwnedSemaphorePermit;

use super::calls::{Callee, call};
use super::{send, start};
use crate::plan::{Outcome, Plan};

pub fn ask_from_tasks(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let mut callees = Vec::new();
        for _ in 0..outside::called(&plan) {
            callees.push(start(Callee, ()).await);
        }
        let task = |number: usize, calls| {
            let callee = callees[number % callees.len()].clone();
            async move {
                let mut sum = 0;
                for number in 0..calls {
                    sum += call(&callee, number).await;
                }
                sum
            }
        };
        outside::ask_from_tasks(&plan, task).await
    })
}

struct Receiver;

struct Number(u64);

impl Actor for Receiver {
    type Msg = Number;
    type State = Handled;
    type Arguments = Handled;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Number>,
        Number(number): Number,
        handled: &mut Handled,
    ) -> Result<(), ActorProcessingErr> {
        handled.note(number);
        Ok(())
    }
}

pub fn tell_from_tasks(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let (handled, ended) = Handled::new(plan.size);
        let receiver = start(Receiver, handled).await;
        let task = |messages| {
            let receiver = receiver.clone();
            async move {
                for number in 0..messages {
                    send(&receiver, Number(number));
                }
            }
        };
        outside::tell_from_tasks(&plan, ended, task).await
    })
}

struct Counter;

struct Add {
    amount: u64,
    _permit: OwnedSemaphorePermit,
}

impl Actor for Counter {
    type Msg = Add;
    type State = u64;
    type Arguments = u64;

    state_from_arguments!();

    async fn handle(&self, _: ActorRef<Add>, add: Add, count: &mut u64) -> Result<(), ActorProcessingErr> {
        *count += add.amount;
        Ok(())
    }
}

pub fn tell_in_turn(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let mut counters = Vec::new();
        for _ in 0..plan.width {
            counters.push(start(Counter, 0).await);
        }
        let tell = |number: usize, permit| {
            send(&counters[number], Add { amount: 1, _permit: permit });
            std::future::ready(())
        };
        outside::tell_in_turn(&plan, tell).await
    })
}

/// Blocks in the runtime's `block_on`, since Ractor has no blocking call of its own.
pub fn ask_from_thread(plan: &Plan) -> Outcome {
    let runtime = outside::tokio(plan.workers);
    let callee = runtime.block_on(start(Callee, ()));
    outside::ask_from_thread(plan, |number| runtime.block_on(call(&callee, number)))
}

struct Account;

struct Deposit {
    amount: u64,
    reply: RpcReplyPort<u64>,
}

impl Actor for Account {
    type Msg = Deposit;
    /// The balance.
    type State = u64;
    type Arguments = u64;

    state_from_arguments!();

    async fn handle(
        &self,
        _: ActorRef<Deposit>,
        Deposit { amount, reply }: Deposit,
        balance: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        *balance += amount;
        reply.send(*balance)?;
        Ok(())
    }
}

type Accounts = Arc<[ActorRef<Deposit>]>;

async fn deposit(
    State(accounts): State<Accounts>,
    Path((account, amount)): Path<(usize, u64)>,
) -> Result<String, StatusCode> {
    let account = accounts.get(account).ok_or(StatusCode::NOT_FOUND)?;
    match account.call(|reply| Deposit { amount, reply }, None).await {
        Ok(CallResult::Success(balance)) => Ok(balance.to_string()),
        _ => Err(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

pub fn axum(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let mut accounts = Vec::new();
        for _ in 0..ACCOUNTS {
            accounts.push(start(Account, 0).await);
        }
        let accounts = Accounts::from(accounts);
        outside::axum(&plan, Router::new().route(DEPOSIT, post(deposit)).with_state(accounts)).await
    })
}
