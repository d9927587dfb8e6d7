//! Calls and messages from tasks, from handlers of axum, and from a thread.

use std::sync::{Arc, Mutex};

use ::axum::Router;
use ::axum::extract::{Path, State};
use ::axum::http::StatusCode;
use ::axum::routing::post;
use ::tokio::spawn;
use ::tokio::sync::{OwnedSemaphorePermit, oneshot};
use compare_frame::outside::{self, ACCOUNTS, DEPOSIT, Handled};

use super::calls::{Question, answer, call};
use super::mailbox::{Address, Inbox, Kind};
use crate::plan::{Outcome, Plan};

pub fn ask_from_tasks<K: Kind>(kind: K, plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let callees: Vec<_> = (0..outside::called(&plan)).map(|_| callee(kind)).collect();
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

/// Starts a process on the current runtime.
fn callee<K: Kind>(kind: K) -> K::Address<Question> {
    let (callee, inbox) = kind.mailbox::<Question>();
    spawn(answer(inbox));
    callee
}

pub fn tell_from_tasks<K: Kind>(kind: K, plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let (address, mut inbox) = kind.mailbox::<u64>();
        let (mut handled, ended) = Handled::new(plan.size);
        spawn(async move {
            while let Some(number) = inbox.receive().await {
                handled.note(number);
            }
        });
        let task = |messages| {
            let address = address.clone();
            async move {
                for number in 0..messages {
                    address.send(number).await;
                }
            }
        };
        outside::tell_from_tasks(&plan, ended, task).await
    })
}

struct Add {
    amount: u64,
    _permit: OwnedSemaphorePermit,
}

pub fn tell_in_turn<K: Kind>(kind: K, plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let counter = |_| {
            let (address, mut inbox) = kind.mailbox::<Add>();
            spawn(async move {
                let mut count = 0;
                while let Some(Add { amount, _permit }) = inbox.receive().await {
                    count += amount;
                }
                count
            });
            address
        };
        let counters: Vec<_> = (0..plan.width).map(counter).collect();
        let tell = |number: usize, permit| counters[number].send(Add { amount: 1, _permit: permit });
        outside::tell_in_turn(&plan, tell).await
    })
}

pub fn ask_from_thread<K: Kind>(kind: K, plan: &Plan) -> Outcome {
    let runtime = outside::tokio(plan.workers);
    let (callee, inbox) = kind.mailbox::<Question>();
    runtime.spawn(answer(inbox));
    outside::ask_from_thread(plan, |number| {
        let (reply, answer) = oneshot::channel();
        callee.send_from_outside(Question { number, reply });
        answer.blocking_recv().expect("an answer")
    })
}

struct Deposit {
    amount: u64,
    reply: oneshot::Sender<u64>,
}

async fn account(mut inbox: impl Inbox<Deposit>) {
    let mut balance = 0;
    while let Some(Deposit { amount, reply }) = inbox.receive().await {
        balance += amount;
        // The handler may have been dropped, with its connection.
        let _ = reply.send(balance);
    }
}

async fn deposit<A: Address<Deposit>>(
    State(accounts): State<Arc<[A]>>,
    Path((account, amount)): Path<(usize, u64)>,
) -> Result<String, StatusCode> {
    let account = accounts.get(account).ok_or(StatusCode::NOT_FOUND)?;
    let (reply, balance) = oneshot::channel();
    account.send(Deposit { amount, reply }).await;
    let balance = balance.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(balance.to_string())
}

pub fn axum<K: Kind>(kind: K, plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let open = |_| {
            let (address, inbox) = kind.mailbox();
            spawn(account(inbox));
            address
        };
        let accounts: Arc<[K::Address<Deposit>]> = (0..ACCOUNTS).map(open).collect();
        let deposit = post(deposit::<K::Address<Deposit>>);
        outside::axum(&plan, Router::new().route(DEPOSIT, deposit).with_state(accounts)).await
    })
}

type Balances = Arc<[Mutex<u64>]>;

async fn deposit_under_mutex(
    State(balances): State<Balances>,
    Path((account, amount)): Path<(usize, u64)>,
) -> Result<String, StatusCode> {
    let balance = balances.get(account).ok_or(StatusCode::NOT_FOUND)?;
    let mut balance = balance.lock().map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    *balance += amount;
    Ok(balance.to_string())
}

pub fn axum_mutex(plan: &Plan) -> Outcome {
    let plan = plan.clone();
    outside::in_tokio(plan.workers, async move {
        let balances: Balances = (0..ACCOUNTS).map(|_| Mutex::new(0)).collect();
        let service = Router::new().route(DEPOSIT, post(deposit_under_mutex)).with_state(balances);
        outside::axum(&plan, service).await
    })
}
