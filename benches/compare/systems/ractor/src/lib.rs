//! Ractor: actors in the manner of Erlang. Each is a task of Tokio.
//!
//! Every mailbox is unbounded, so there is no bounded run. Messages are sent with `cast`. Only `ask` waits for a reply,
//! and uses `call`. Actors are started without a supervisor, since that is the cheapest way.

/// Implements the start of an actor whose arguments are its state.
macro_rules! state_from_arguments {
    () => {
        async fn pre_start(
            &self,
            _: ::ractor::ActorRef<Self::Msg>,
            state: Self::Arguments,
        ) -> Result<Self::State, ::ractor::ActorProcessingErr> {
            Ok(state)
        }
    };
}

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

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ::ractor::{Actor, ActorRef, Message};
use ::tokio::runtime::Builder;

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
        Workload::PingPong => in_runtime(plan, passing::ping_pong::<0>(plan)),
        Workload::PingPongPairs => in_runtime(plan, passing::pairs(plan)),
        Workload::ThreadRing => in_runtime(plan, passing::ring(plan)),
        Workload::Counting => in_runtime(plan, flows::counting::<0>(plan)),
        Workload::FanIn => in_runtime(plan, flows::fan_in(plan)),
        Workload::FanOut => in_runtime(plan, flows::fan_out(plan)),
        Workload::ForkJoinCreate => in_runtime(plan, births::fork_join_create(plan)),
        Workload::Big => in_runtime(plan, big::big(plan)),
        Workload::Skynet => in_runtime(plan, births::skynet(plan)),
        Workload::IdleMemory => in_runtime(plan, births::idle_memory(plan)),
        Workload::Ask => in_runtime(plan, calls::ask(plan)),
        Workload::WakeLatency => in_runtime(plan, calls::wake_latency(plan)),
        Workload::AskFromTasks => outside::ask_from_tasks(plan),
        Workload::TellFromTasks => outside::tell_from_tasks(plan),
        Workload::TellInTurn => outside::tell_in_turn(plan),
        Workload::AskFromThread => outside::ask_from_thread(plan),
        Workload::Axum => outside::axum(plan),
        Workload::AxumMutex => return None,
        Workload::NQueens => in_runtime(plan, queens::nqueens(plan)),
        Workload::Matrix => in_runtime(plan, compute::matrix(plan)),
        Workload::Pipeline => in_runtime(plan, compute::pipeline(plan)),
        Workload::Chameneos => in_runtime(plan, savina::chameneos(plan)),
        Workload::Philosophers => in_runtime(plan, savina::philosophers(plan)),
        Workload::Banking => in_runtime(plan, savina::banking(plan)),
        Workload::RadixSort => in_runtime(plan, savina::radix_sort(plan)),
        Workload::Dictionary => in_runtime(plan, savina::dictionary(plan)),
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
        (Workload::PingPong, 32) => Some(in_runtime(plan, passing::ping_pong::<32>(plan))),
        (Workload::PingPong, 256) => Some(in_runtime(plan, passing::ping_pong::<256>(plan))),
        (Workload::PingPong, 512) => Some(in_runtime(plan, passing::ping_pong::<512>(plan))),
        (Workload::PingPong, 4_096) => Some(in_runtime(plan, passing::ping_pong::<4_096>(plan))),
        (Workload::Counting, 32) => Some(in_runtime(plan, flows::counting::<32>(plan))),
        (Workload::Counting, 256) => Some(in_runtime(plan, flows::counting::<256>(plan))),
        (Workload::Counting, 512) => Some(in_runtime(plan, flows::counting::<512>(plan))),
        (Workload::Counting, 4_096) => Some(in_runtime(plan, flows::counting::<4_096>(plan))),
        _ => None,
    }
}

/// Runs `work` on a runtime. One worker is the main thread itself, since Tokio's single-threaded scheduler is faster.
fn in_runtime(plan: &Plan, work: impl Future<Output = Outcome>) -> Outcome {
    let mut builder = match plan.workers {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if plan.workers > 1 {
        builder.worker_threads(plan.workers);
    }
    // The future is boxed, so that the code below is compiled once and not for each workload.
    let work: Pin<Box<dyn Future<Output = Outcome> + '_>> = Box::pin(work);
    builder.enable_all().build().expect("a runtime should start").block_on(work)
}

/// The actors of one kind, by number.
type Peers<M> = Arc<[ActorRef<M>]>;

fn nobody<M>() -> Peers<M> {
    Arc::from([])
}

/// Returns the share of `size` that process `index` of `width` has.
fn share(size: u64, width: u64, index: u64) -> u64 {
    size / width + u64::from(index < size % width)
}

async fn start<A: Actor>(actor: A, arguments: A::Arguments) -> ActorRef<A::Msg> {
    let (actor, _) = Actor::spawn(None, actor, arguments).await.expect("an actor without a name should start");
    actor
}

fn send<M: Message>(actor: &ActorRef<M>, message: M) {
    assert!(actor.cast(message).is_ok(), "the receiver should be alive");
}
