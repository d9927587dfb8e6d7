//! xtra on Tokio. A receiver is an actor, with a handler for each type of message. Code that only sends, or calls and
//! waits, is a task, as in xtra's own examples. A message is sent by `send(…).detach()`, whose future is ready once the
//! message is in the mailbox. A call is `send(…)`, whose future is the reply. An actor that ends with a result is run
//! by `tokio::spawn(xtra::run(…))`, whose handle returns the result.
//!
//! The workloads that check or need the order of messages (`Counting`, `FanIn`, `RadixSort`) are left out. A mailbox of
//! xtra 0.6 is a binary heap by priority, which returns messages of the same priority in any order. The other workloads
//! are written so that they end correctly in any order.
//!
//! With one worker, the runtime is the current-thread one. With more, it is the multi-thread one. Neither has a driver
//! for time or sockets, which no workload needs. The first process of a workload is a task, too, so that nothing is
//! measured from outside.

mod big;
mod births;
mod calls;
mod compute;
mod dictionary;
mod flows;
mod outside;
mod passing;
mod savina;

use std::time::Duration;

use ::tokio::runtime::Builder;
use ::xtra::{Actor, Address, Handler, Mailbox};

use compare_frame::{kernel, plan};

use crate::plan::{Outcome, Plan, Style, Via, Workload};

/// Runs the plan. Returns `None` if the plan needs a feature that xtra does not have.
pub fn run(plan: &Plan) -> Option<Outcome> {
    if plan.workload.is_probe()
        || plan.via != Via::Address
        || plan.style != Style::Natural
        || (plan.bound.is_some() && is_circular(plan.workload))
    {
        return None;
    }
    let Plan { workers, size, width, bound, .. } = *plan;
    Some(match (plan.workload, plan.payload) {
        (Workload::PingPong, 0) => on_runtime(workers, passing::ping_pong::<0>(bound, size)),
        (Workload::PingPong, 32) => on_runtime(workers, passing::ping_pong::<32>(bound, size)),
        (Workload::PingPong, 256) => on_runtime(workers, passing::ping_pong::<256>(bound, size)),
        (Workload::PingPong, 512) => on_runtime(workers, passing::ping_pong::<512>(bound, size)),
        (Workload::PingPong, 4096) => on_runtime(workers, passing::ping_pong::<4096>(bound, size)),
        (Workload::PingPong, _) => return None,
        (Workload::Counting | Workload::FanIn | Workload::RadixSort, _) => return None,
        (Workload::PingPongPairs, _) => on_runtime(workers, passing::pairs(bound, size, width)),
        (Workload::ThreadRing, _) => on_runtime(workers, passing::ring(bound, size, width)),
        (Workload::FanOut, _) => on_runtime(workers, flows::fan_out(bound, size, width)),
        (Workload::ForkJoinCreate, _) => on_runtime(workers, births::fork_join_create(bound, size)),
        (Workload::Skynet, _) => on_runtime(workers, births::skynet(bound, size)),
        (Workload::IdleMemory, _) => on_runtime(workers, births::idle_memory(bound, size)),
        (Workload::Big, _) => on_runtime(workers, big::big(bound, size, width)),
        (Workload::Ask, _) => on_runtime(workers, calls::ask(bound, size)),
        (Workload::WakeLatency, _) => on_runtime(workers, calls::wake_latency(bound, size)),
        (Workload::AskFromTasks, _) => outside::ask_from_tasks(plan),
        (Workload::TellFromTasks, _) => outside::tell_from_tasks(plan),
        (Workload::TellInTurn, _) => outside::tell_in_turn(plan),
        (Workload::AskFromThread, _) => outside::ask_from_thread(plan),
        (Workload::Axum, _) => outside::axum(plan),
        (Workload::NQueens, _) => on_runtime(workers, compute::n_queens(workers, width)),
        (Workload::Matrix, _) => on_runtime(workers, compute::matrix(workers, width)),
        (Workload::Pipeline, _) => on_runtime(workers, compute::pipeline(bound, size, width, plan.work)),
        (Workload::Chameneos, _) => on_runtime(workers, savina::chameneos(size, width)),
        (Workload::Philosophers, _) => on_runtime(workers, savina::philosophers(size, width)),
        (Workload::Banking, _) => on_runtime(workers, savina::banking(size, width)),
        (Workload::Dictionary, _) => on_runtime(workers, dictionary::dictionary(bound, size, width)),
        _ => return None,
    })
}

/// Returns true if the messages go in circles. With bounded mailboxes, whose sends wait, the processes of a circle
/// could wait for each other forever. So such workloads run only without a bound.
fn is_circular(workload: Workload) -> bool {
    use Workload::{Banking, Chameneos, Matrix, NQueens, Philosophers};
    matches!(workload, NQueens | Matrix | Chameneos | Philosophers | Banking)
}

/// Runs the first process of a workload on a runtime of its own.
fn on_runtime(workers: usize, first: impl Future<Output = Outcome> + Send + 'static) -> Outcome {
    let mut builder = if workers == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    if workers > 1 {
        builder.worker_threads(workers);
    }
    let runtime = builder.build().expect("threads for the runtime");
    let first = runtime.spawn(first);
    runtime.block_on(first).expect("the first process ends well")
}

fn mailbox<A: Actor>(bound: Option<usize>) -> (Address<A>, Mailbox<A>) {
    match bound {
        None => Mailbox::unbounded(),
        Some(bound) => Mailbox::bounded(bound),
    }
}

/// Sends a message without a reply. If the mailbox has a bound, waits for room.
async fn tell<A: Handler<M>, M: Send + 'static>(address: &Address<A>, message: M) {
    // No workload sends to a process that has exited, so a failure would be a mistake in the workload.
    let _reply = address.send(message).detach().await.expect("the receiver lives");
}

fn outcome(elapsed: Duration, operations: u64, check: u64) -> Outcome {
    Outcome { elapsed, operations, check, ..Outcome::default() }
}

/// Returns the share of `size` that process `index` of `width` has.
fn share(size: u64, width: u64, index: u64) -> u64 {
    size / width + u64::from(index < size % width)
}
