//! The drivers of the workloads whose senders are no processes: tasks of Tokio, and a plain thread.

use crate::plan::{Outcome, Plan};
use std::pin::Pin;
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

/// Number of processes that tasks call.
pub const CALLED: u64 = 16;

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

/// Makes the calls of `AskFromThread` on the calling thread. `call` returns the reply.
pub fn ask_from_thread(plan: &Plan, call: impl FnMut(u64) -> u64) -> Outcome {
    let start = Instant::now();
    let check = (0..plan.size).map(call).sum();
    Outcome { elapsed: start.elapsed(), operations: plan.size, check, ..Outcome::default() }
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
