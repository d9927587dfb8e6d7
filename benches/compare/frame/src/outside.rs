//! The drivers of the workloads whose senders are no processes: tasks of Tokio, handlers of axum, and a plain thread.

use crate::http::Connection;
use crate::kernel::Random;
use crate::plan::{Outcome, Plan};
use axum::Router;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Number of processes that tasks call.
pub const CALLED: u64 = 16;

/// Number of accounts of the service in `Axum`.
pub const ACCOUNTS: u64 = 64;

/// The route of the service in `Axum`. Its handler returns the balance of the account, from 0 up, after the deposit.
pub const DEPOSIT: &str = "/accounts/{account}/deposit/{amount}";

/// Runs `work` as a task of a Tokio runtime with `workers` threads.
pub fn in_tokio(workers: usize, work: impl Future<Output = Outcome> + Send + 'static) -> Outcome {
    // The future is boxed, so that the code below is compiled once and not for each workload.
    let work: Pin<Box<dyn Future<Output = Outcome> + Send>> = Box::pin(work);
    let runtime = tokio(workers);
    let work = runtime.spawn(work);
    runtime.block_on(work).expect("the task ends well")
}

/// Returns a Tokio runtime with threads of its own, even if there is only one worker: the calling thread need not
/// drive it.
pub fn tokio(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().expect("threads for the runtime")
}

/// Returns the number of processes that the tasks of this plan call.
pub fn called(plan: &Plan) -> u64 {
    plan.width.min(CALLED)
}

/// Runs the tasks of `AskFromTasks` on the current Tokio runtime. `task` gets the number of the task, and how many
/// calls to make, and returns the sum of the replies.
pub async fn ask_from_tasks<F>(plan: &Plan, task: impl Fn(usize, u64) -> F) -> Outcome
where
    F: Future<Output = u64> + Send + 'static,
{
    let share = plan.size / plan.width;
    let start = Instant::now();
    let tasks: Vec<_> = (0..plan.width).map(|number| tokio::spawn(task(number as usize, share))).collect();
    let mut check = 0;
    for task in tasks {
        check += task.await.expect("each task ends well");
    }
    Outcome { elapsed: start.elapsed(), operations: plan.size, check, ..Outcome::default() }
}

/// Runs the tasks of `TellFromTasks` on the current Tokio runtime. `task` gets how many messages to send. The process
/// sends the sum of all its messages to `handled` when it has handled the last one.
pub async fn tell_from_tasks<F>(plan: &Plan, handled: oneshot::Receiver<u64>, task: impl Fn(u64) -> F) -> Outcome
where
    F: Future<Output = ()> + Send + 'static,
{
    let share = plan.size / plan.width;
    let start = Instant::now();
    let tasks: Vec<_> = (0..plan.width).map(|_| tokio::spawn(task(share))).collect();
    let check = handled.await.expect("all messages are handled");
    let elapsed = start.elapsed();
    for task in tasks {
        task.await.expect("each task ends well");
    }
    Outcome { elapsed, operations: plan.size, check, ..Outcome::default() }
}

/// Sends the messages of `TellInTurn` from the current task. `tell` gets the number of the process, and the permit.
pub async fn tell_in_turn<F>(plan: &Plan, tell: impl Fn(usize, OwnedSemaphorePermit) -> F) -> Outcome
where
    F: Future<Output = ()>,
{
    let permits = Arc::new(Semaphore::new(plan.size as usize));
    let start = Instant::now();
    for number in 0..plan.size {
        let permit = permits.clone().try_acquire_owned().expect("a permit for each message");
        tell((number % plan.width) as usize, permit).await;
    }
    let all = permits.acquire_many(plan.size as u32).await.expect("an open semaphore");
    Outcome { elapsed: start.elapsed(), operations: plan.size, check: all.num_permits() as u64, ..Outcome::default() }
}

/// Makes the calls of `AskFromThread` on the calling thread. `call` returns the reply.
pub fn ask_from_thread(plan: &Plan, call: impl FnMut(u64) -> u64) -> Outcome {
    let start = Instant::now();
    let check = (0..plan.size).map(call).sum();
    Outcome { elapsed: start.elapsed(), operations: plan.size, check, ..Outcome::default() }
}

/// Serves `service` on the current Tokio runtime, and runs the clients of `Axum` there, too.
pub async fn axum(plan: &Plan, service: Router) -> Outcome {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let address = listener.local_addr().expect("the address of a listener");
    // The service ends with the runtime.
    tokio::spawn(async { axum::serve(listener, service).await });
    let mut connections = Vec::new();
    for _ in 0..plan.width {
        connections.push(Connection::open(address).await);
    }
    let share = plan.size / plan.width;
    let start = Instant::now();
    let clients: Vec<_> =
        (0..).zip(connections).map(|(number, connection)| tokio::spawn(client(number, connection, share))).collect();
    for client in clients {
        client.await.expect("each client ends well");
    }
    let elapsed = start.elapsed();
    let mut connection = Connection::open(address).await;
    let mut check = 0;
    for account in 0..ACCOUNTS {
        check += deposit(&mut connection, account, 0).await;
    }
    Outcome { elapsed, operations: plan.size, check, ..Outcome::default() }
}

/// Deposits 0, 1, 2, … to random accounts.
async fn client(number: u64, mut connection: Connection, requests: u64) {
    let mut accounts = Random::seeded(number);
    for amount in 0..requests {
        deposit(&mut connection, accounts.below(ACCOUNTS), amount).await;
    }
}

/// Makes a request to the service of `Axum`, and returns the balance.
async fn deposit(connection: &mut Connection, account: u64, amount: u64) -> u64 {
    connection.post(&format!("/accounts/{account}/deposit/{amount}")).await
}

/// The messages that a process of `TellFromTasks` has handled.
pub struct Handled {
    left: u64,
    sum: u64,
    end: Option<oneshot::Sender<u64>>,
}

impl Handled {
    /// Expects `size` messages, and sends their sum to the receiver.
    pub fn new(size: u64) -> (Self, oneshot::Receiver<u64>) {
        let (end, ended) = oneshot::channel();
        (Self { left: size, sum: 0, end: Some(end) }, ended)
    }

    #[inline]
    pub fn note(&mut self, number: u64) {
        self.sum += number;
        self.left -= 1;
        if self.left == 0 {
            let end = self.end.take().expect("only the last message ends it");
            end.send(self.sum).expect("the workload waits");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Bounding, Style, Via, Workload};
    use axum::extract::Path;
    use axum::routing::post;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// Runs three clients with four requests each. The accounts of the service are the numbers in `balances`.
    fn serve(balances: &Arc<[AtomicU64]>) -> Outcome {
        let (workload, via, style, work) = (Workload::Axum, Via::Address, Style::Natural, Duration::ZERO);
        let (size, width, bounding) = (12, 3, Bounding::Unasked);
        let plan = Plan { workload, workers: 2, size, width, payload: 0, bound: None, bounding, via, style, work };
        let balances = balances.clone();
        let deposit = async move |Path((account, amount)): Path<(usize, u64)>| {
            (balances[account].fetch_add(amount, Ordering::Relaxed) + amount).to_string()
        };
        in_tokio(2, async move { axum(&plan, Router::new().route(DEPOSIT, post(deposit))).await })
    }

    #[test]
    fn the_check_of_a_service_is_the_sum_of_all_balances() {
        let balances: Arc<[AtomicU64]> = (0..ACCOUNTS).map(|_| AtomicU64::new(0)).collect();
        let outcome = serve(&balances);
        let sum: u64 = balances.iter().map(|balance| balance.load(Ordering::Relaxed)).sum();
        assert_eq!((outcome.operations, outcome.check, sum), (12, 3 * (1 + 2 + 3), 18));
    }

    #[test]
    #[should_panic(expected = "each client ends well")]
    fn a_response_with_an_error_fails_the_run() {
        // The handler of a missing account panics, and axum closes its connection.
        serve(&Arc::default());
    }
}
