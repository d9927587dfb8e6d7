//! Calls and messages from tasks of another Tokio runtime, from handlers of axum in such a runtime, and from a thread.
//! The actors are on the arbiters of a system, in turn, whose threads are beside those of the tasks.

use std::sync::Arc;
use std::thread;

use ::actix::prelude::*;
use ::axum::Router;
use ::axum::extract::{Path, State};
use ::axum::http::StatusCode;
use ::axum::routing::post;
use ::tokio::sync::{OwnedSemaphorePermit, oneshot};
use compare_frame::outside::{self, ACCOUNTS, DEPOSIT, Handled};

use super::calls::{Callee, call};
use super::in_system;
use crate::plan::{Outcome, Plan};

/// Starts actors in a system, and runs `work` with their addresses on the calling thread.
fn beside_system<A, T>(workers: usize, actors: Vec<A>, work: impl FnOnce(Vec<Addr<A>>) -> T) -> T
where
    A: Actor<Context = Context<A>> + Send,
{
    let (start, started) = std::sync::mpsc::channel();
    let (end, ended) = oneshot::channel::<()>();
    let system = thread::spawn(move || {
        in_system(workers, async |places| {
            let actors = actors.into_iter().enumerate().map(|(place, actor)| places.start(place, actor));
            start.send(actors.collect()).expect("the workload waits");
            let _over = ended.await;
            Outcome::default()
        })
    });
    let outcome = work(started.recv().expect("the actors start"));
    drop(end);
    system.join().expect("the system should end without a panic");
    outcome
}

pub fn ask_from_tasks(plan: &Plan) -> Outcome {
    let callees = (0..outside::called(plan)).map(|_| Callee).collect();
    beside_system(plan.workers, callees, |callees| {
        let plan = plan.clone();
        outside::in_tokio(plan.workers, async move {
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
    })
}

struct Receiver(Handled);

impl Actor for Receiver {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "()")]
struct Number(u64);

impl Handler<Number> for Receiver {
    type Result = ();

    fn handle(&mut self, Number(number): Number, _: &mut Context<Self>) {
        self.0.note(number);
    }
}

pub fn tell_from_tasks(plan: &Plan) -> Outcome {
    let (handled, ended) = Handled::new(plan.size);
    beside_system(plan.workers, vec![Receiver(handled)], |receivers| {
        let plan = plan.clone();
        outside::in_tokio(plan.workers, async move {
            let task = |messages| {
                let receiver = receivers[0].clone();
                async move {
                    for number in 0..messages {
                        receiver.do_send(Number(number));
                    }
                }
            };
            outside::tell_from_tasks(&plan, ended, task).await
        })
    })
}

struct Counter {
    count: u64,
}

impl Actor for Counter {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "()")]
struct Add {
    amount: u64,
    _permit: OwnedSemaphorePermit,
}

impl Handler<Add> for Counter {
    type Result = ();

    fn handle(&mut self, add: Add, _: &mut Context<Self>) {
        self.count += add.amount;
    }
}

/// Has the sender and all actors on the thread of the system, as the published benchmark does. Then no message wakes a
/// thread.
pub fn tell_in_turn(plan: &Plan) -> Outcome {
    in_system(plan.workers, async |places| {
        let counters: Vec<_> = (0..plan.width).map(|_| places.start(0, Counter { count: 0 })).collect();
        let tell = |number: usize, permit| {
            counters[number].do_send(Add { amount: 1, _permit: permit });
            std::future::ready(())
        };
        outside::tell_in_turn(plan, tell).await
    })
}

/// Blocks in the `block_on` of a Tokio runtime, since actix has no blocking call of its own.
pub fn ask_from_thread(plan: &Plan) -> Outcome {
    beside_system(plan.workers, vec![Callee], |callees| {
        let runtime = outside::tokio(1);
        outside::ask_from_thread(plan, |number| runtime.block_on(call(&callees[0], number)))
    })
}

struct Account {
    balance: u64,
}

impl Actor for Account {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "u64")]
struct Deposit(u64);

impl Handler<Deposit> for Account {
    type Result = u64;

    fn handle(&mut self, Deposit(amount): Deposit, _: &mut Context<Self>) -> u64 {
        self.balance += amount;
        self.balance
    }
}

type Accounts = Arc<[Addr<Account>]>;

async fn deposit(
    State(accounts): State<Accounts>,
    Path((account, amount)): Path<(usize, u64)>,
) -> Result<String, StatusCode> {
    let account = accounts.get(account).ok_or(StatusCode::NOT_FOUND)?;
    let balance = account.send(Deposit(amount)).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(balance.to_string())
}

pub fn axum(plan: &Plan) -> Outcome {
    let accounts = (0..ACCOUNTS).map(|_| Account { balance: 0 }).collect();
    beside_system(plan.workers, accounts, |accounts| {
        let plan = plan.clone();
        outside::in_tokio(plan.workers, async move {
            let accounts = Accounts::from(accounts);
            outside::axum(&plan, Router::new().route(DEPOSIT, post(deposit)).with_state(accounts)).await
        })
    })
}
