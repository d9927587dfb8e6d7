//! Actix: actors on arbiters. Each arbiter is a thread with its own event loop.
//!
//! An actor stays on the arbiter where it was started, so the program chooses the place. With one worker, all actors
//! are on the thread of the system. With two, there is one more arbiter, and each workload documents how it uses both.
//! A message between arbiters wakes a thread, which costs a hundred times as much as a message within an arbiter. So
//! actors that communicate much and compute little should share an arbiter.
//!
//! Messages are sent with `do_send`. There is no bounded run, because the capacity of a mailbox limits only two other
//! ways to send: `send`, which waits for the answer as well, and `try_send`, which fails.

mod big;
mod births;
mod calls;
mod compute;
mod finish;
mod flows;
mod outside;
mod passing;
mod probe;
mod queens;
mod savina;
mod tally;

use std::sync::Arc;

use ::actix::prelude::*;

use compare_frame::{kernel, plan};

use crate::plan::{Outcome, Plan, Style, Via, Workload};

pub fn run(plan: &Plan) -> Option<Outcome> {
    if plan.via != Via::Address || plan.style != Style::Natural || plan.bound.is_some() {
        return None;
    }
    if plan.payload != 0 {
        return run_with_payload(plan);
    }
    Some(match plan.workload {
        Workload::PingPong => passing::ping_pong::<0>(plan),
        Workload::PingPongPairs => passing::pairs(plan),
        Workload::ThreadRing => passing::ring(plan),
        Workload::Counting => flows::counting::<0>(plan),
        Workload::FanIn => flows::fan_in(plan),
        Workload::FanOut => flows::fan_out(plan),
        Workload::ForkJoinCreate => births::fork_join_create(plan),
        Workload::Big => big::big(plan),
        Workload::Skynet => births::skynet(plan),
        Workload::IdleMemory => births::idle_memory(plan),
        Workload::Ask => calls::ask(plan),
        Workload::WakeLatency => calls::wake_latency(plan),
        Workload::AskFromTasks => outside::ask_from_tasks(plan),
        Workload::TellFromTasks => outside::tell_from_tasks(plan),
        Workload::TellInTurn => outside::tell_in_turn(plan),
        Workload::AskFromThread => outside::ask_from_thread(plan),
        Workload::Axum => outside::axum(plan),
        Workload::AxumMutex => return None,
        Workload::NQueens => queens::nqueens(plan),
        Workload::Matrix => compute::matrix(plan),
        Workload::Pipeline => compute::pipeline(plan),
        Workload::Chameneos => savina::chameneos(plan),
        Workload::Philosophers => savina::philosophers(plan),
        Workload::Banking => savina::banking(plan),
        Workload::RadixSort => savina::radix_sort(plan),
        Workload::Dictionary => savina::dictionary(plan),
        Workload::ProbeIdle
        | Workload::ProbeFlood
        | Workload::ProbeBlocking
        | Workload::ProbeTold
        | Workload::ProbeLooping
        | Workload::ProbeTimers => probe::probe(plan),
    })
}

fn run_with_payload(plan: &Plan) -> Option<Outcome> {
    match (plan.workload, plan.payload) {
        (Workload::PingPong, 32) => Some(passing::ping_pong::<32>(plan)),
        (Workload::PingPong, 256) => Some(passing::ping_pong::<256>(plan)),
        (Workload::PingPong, 512) => Some(passing::ping_pong::<512>(plan)),
        (Workload::PingPong, 4_096) => Some(passing::ping_pong::<4_096>(plan)),
        (Workload::Counting, 32) => Some(flows::counting::<32>(plan)),
        (Workload::Counting, 256) => Some(flows::counting::<256>(plan)),
        (Workload::Counting, 512) => Some(flows::counting::<512>(plan)),
        (Workload::Counting, 4_096) => Some(flows::counting::<4_096>(plan)),
        _ => None,
    }
}

/// The addresses of all actors of one kind, by number.
type Peers<A> = Arc<[Addr<A>]>;

fn nobody<A: Actor>() -> Peers<A> {
    Arc::from([])
}

/// Tells a process that drives a workload to begin.
#[derive(Message)]
#[rtype(result = "()")]
struct Begin;

/// Returns the share of `size` that process `index` of `width` has.
fn share(size: u64, width: u64, index: u64) -> u64 {
    size / width + u64::from(index < size % width)
}

/// The threads that run actors. The first is the thread of the system, and there is an arbiter for each further worker.
struct Places(Vec<ArbiterHandle>);

impl Places {
    fn count(&self) -> usize {
        self.0.len()
    }

    /// Starts an actor at the given place, modulo the number of places. Must be called on the thread of the system,
    /// where starting an actor needs no message.
    fn start<A: Actor<Context = Context<A>> + Send>(&self, place: usize, actor: A) -> Addr<A> {
        match place % self.count() {
            0 => actor.start(),
            other => A::start_in_arbiter(&self.0[other], move |_| actor),
        }
    }
}

/// Builds a system with `workers` threads, and runs `work` on the first one.
fn in_system(workers: usize, work: impl AsyncFnOnce(Places) -> Outcome) -> Outcome {
    let system = System::new();
    let arbiters: Vec<Arbiter> = (1..workers).map(|_| Arbiter::new()).collect();
    let own = System::current().arbiter().clone();
    let places = Places(std::iter::once(own).chain(arbiters.iter().map(Arbiter::handle)).collect());
    let outcome = system.block_on(work(places));
    for arbiter in arbiters {
        arbiter.stop();
        arbiter.join().expect("an arbiter should end without a panic");
    }
    outcome
}
