//! Bare Tokio, without an actor layer. A process is a task, its mailbox is an `mpsc` channel, and a reply is a
//! `oneshot`.
//!
//! With one worker, the runtime is the current-thread one. With more, it is the multi-thread one. Neither has a driver
//! for time or sockets, which only the probes need. The first process of a workload is a task, too, so that nothing is
//! measured from outside.

mod big;
mod births;
mod calls;
mod compute;
mod data;
mod flows;
mod mailbox;
mod outside;
mod passing;
mod probe;
mod savina;

use std::time::Duration;

use ::tokio::runtime::Builder;

use self::mailbox::{Bounded, Kind, Unbounded};
use compare_frame::{kernel, plan};

use crate::plan::{Outcome, Plan, Style, Via, Workload};

/// Runs the plan. Returns `None` if the plan needs a feature that bare channels do not have.
pub fn run(plan: &Plan) -> Option<Outcome> {
    if plan.via != Via::Address || plan.style != Style::Natural {
        return None;
    }
    if plan.workload.is_probe() {
        return plan.bound.is_none().then(|| probe::probe(plan));
    }
    match plan.bound {
        None => circular(plan).or_else(|| run_with(Unbounded, plan)),
        Some(bound) => run_with(Bounded(bound), plan),
    }
}

/// Runs the workloads whose messages go in circles. With bounded mailboxes, whose sends wait, the processes of a circle
/// could wait for each other forever. So these workloads run only without a bound.
fn circular(plan: &Plan) -> Option<Outcome> {
    let Plan { workers, size, width, .. } = *plan;
    Some(match plan.workload {
        Workload::NQueens => on_runtime(workers, compute::n_queens(workers, width)),
        Workload::Matrix => on_runtime(workers, compute::matrix(workers, width)),
        Workload::Chameneos => on_runtime(workers, savina::chameneos(size, width)),
        Workload::Philosophers => on_runtime(workers, savina::philosophers(size, width)),
        Workload::Banking => on_runtime(workers, savina::banking(size, width)),
        _ => return None,
    })
}

fn run_with<K: Kind>(kind: K, plan: &Plan) -> Option<Outcome> {
    let Plan { workers, size, width, .. } = *plan;
    Some(match (plan.workload, plan.payload) {
        (Workload::PingPong, 0) => on_runtime(workers, passing::ping_pong::<K, 0>(kind, size)),
        (Workload::PingPong, 32) => on_runtime(workers, passing::ping_pong::<K, 32>(kind, size)),
        (Workload::PingPong, 256) => on_runtime(workers, passing::ping_pong::<K, 256>(kind, size)),
        (Workload::PingPong, 512) => on_runtime(workers, passing::ping_pong::<K, 512>(kind, size)),
        (Workload::PingPong, 4096) => on_runtime(workers, passing::ping_pong::<K, 4096>(kind, size)),
        (Workload::Counting, 0) => on_runtime(workers, flows::counting::<K, 0>(kind, size)),
        (Workload::Counting, 32) => on_runtime(workers, flows::counting::<K, 32>(kind, size)),
        (Workload::Counting, 256) => on_runtime(workers, flows::counting::<K, 256>(kind, size)),
        (Workload::Counting, 512) => on_runtime(workers, flows::counting::<K, 512>(kind, size)),
        (Workload::Counting, 4096) => on_runtime(workers, flows::counting::<K, 4096>(kind, size)),
        (Workload::PingPongPairs, _) => on_runtime(workers, passing::pairs(kind, size, width)),
        (Workload::ThreadRing, _) => on_runtime(workers, passing::ring(kind, size, width)),
        (Workload::FanIn, _) => on_runtime(workers, flows::fan_in(kind, size, width)),
        (Workload::FanOut, _) => on_runtime(workers, flows::fan_out(kind, size, width)),
        (Workload::ForkJoinCreate, _) => on_runtime(workers, births::fork_join_create(kind, size)),
        (Workload::Skynet, _) => on_runtime(workers, births::skynet(kind, size)),
        (Workload::IdleMemory, _) => on_runtime(workers, births::idle_memory(kind, size)),
        (Workload::Big, _) => on_runtime(workers, big::big(kind, size, width)),
        (Workload::Ask, _) => on_runtime(workers, calls::ask(kind, size)),
        (Workload::WakeLatency, _) => on_runtime(workers, calls::wake_latency(kind, size)),
        (Workload::AskFromTasks, _) => outside::ask_from_tasks(kind, plan),
        (Workload::TellFromTasks, _) => outside::tell_from_tasks(kind, plan),
        (Workload::TellInTurn, _) => outside::tell_in_turn(kind, plan),
        (Workload::AskFromThread, _) => outside::ask_from_thread(kind, plan),
        (Workload::Axum, _) => outside::axum(kind, plan),
        (Workload::AxumMutex, _) => outside::axum_mutex(plan),
        (Workload::Pipeline, _) => on_runtime(workers, compute::pipeline(kind, size, width, plan.work)),
        (Workload::RadixSort, _) => on_runtime(workers, data::radix_sort(kind, size)),
        (Workload::Dictionary, _) => on_runtime(workers, data::dictionary(kind, size, width)),
        _ => return None,
    })
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

fn outcome(elapsed: Duration, operations: u64, check: u64) -> Outcome {
    Outcome { elapsed, operations, check, ..Outcome::default() }
}

/// Returns the share of `size` that process `index` of `width` has.
fn share(size: u64, width: u64, index: u64) -> u64 {
    size / width + u64::from(index < size % width)
}
