//! Postroom, used as its guide recommends: the processes use `#[process]` with default options, and are reached by
//! address. The sweeps also reach them by PID and by name ([`target`]), and have them written by hand ([`by_hand`]).
//!
//! Mailboxes have their default bounds, or those of the sweep over bounds.

mod big;
mod births;
mod by_hand;
mod calls;
mod compute;
mod finish;
mod flows;
mod outside;
mod passing;
mod probe;
mod savina;
mod target;

use compare_frame::{kernel, plan};

use crate::plan::{Bounding, Outcome, Plan, Style, Via, Workload};
use postroom::{Bound, Overflow, Runtime};

/// Number of messages that a process sends, or of children that it spawns, before it lets others have their turn. For
/// the rest it sends a message to itself.
const BATCH: u64 = 1_000;

pub fn run(plan: &Plan) -> Option<Outcome> {
    let swept = matches!(plan.workload, Workload::PingPong | Workload::Counting);
    let by_hand = plan.style == Style::ByHand;
    if (!swept && (plan.payload != 0 || plan.via != Via::Address))
        || (by_hand && !swept && plan.workload != Workload::FanIn)
    {
        return None;
    }
    let runtime = Runtime::builder().workers(plan.workers).mailbox(bound(plan)).build().expect("a runtime");
    match plan.workload {
        Workload::PingPong if by_hand => by_hand::ping_pong(&runtime, plan),
        Workload::PingPong => passing::ping_pong(&runtime, plan),
        Workload::PingPongPairs => Some(passing::pairs(&runtime, plan)),
        Workload::ThreadRing => Some(passing::ring(&runtime, plan)),
        Workload::Counting if by_hand => by_hand::counting(&runtime, plan),
        Workload::Counting => flows::counting(&runtime, plan),
        Workload::FanIn if by_hand => Some(by_hand::fan_in(&runtime, plan)),
        Workload::FanIn => Some(flows::fan_in(&runtime, plan)),
        Workload::FanOut => Some(flows::fan_out(&runtime, plan)),
        Workload::ForkJoinCreate => Some(births::fork_join_create(&runtime, plan)),
        Workload::Big => Some(big::big(&runtime, plan)),
        Workload::Skynet => Some(births::skynet(&runtime, plan)),
        Workload::IdleMemory => Some(births::idle_memory(&runtime, plan)),
        Workload::Ask => Some(calls::ask(&runtime, plan)),
        Workload::WakeLatency => Some(calls::wake_latency(&runtime, plan)),
        Workload::AskFromTasks => Some(outside::ask_from_tasks(plan)),
        Workload::TellFromTasks => Some(outside::tell_from_tasks(plan)),
        Workload::TellInTurn => Some(outside::tell_in_turn(plan)),
        Workload::AskFromThread => Some(outside::ask_from_thread(&runtime, plan)),
        Workload::Axum => Some(outside::axum(plan)),
        Workload::AxumMutex => None,
        Workload::NQueens => Some(compute::nqueens(&runtime, plan)),
        Workload::Matrix => Some(compute::matrix(&runtime, plan)),
        Workload::Pipeline => Some(compute::pipeline(&runtime, plan)),
        Workload::Chameneos => Some(savina::chameneos::chameneos(&runtime, plan)),
        Workload::Philosophers => Some(savina::philosophers::philosophers(&runtime, plan)),
        Workload::Banking => Some(savina::banking::banking(&runtime, plan)),
        Workload::RadixSort => Some(savina::radix_sort::radix_sort(&runtime, plan)),
        Workload::Dictionary => Some(savina::dictionary::dictionary(&runtime, plan)),
        Workload::ProbeIdle
        | Workload::ProbeFlood
        | Workload::ProbeBlocking
        | Workload::ProbeTold
        | Workload::ProbeLooping
        | Workload::ProbeTimers => Some(probe::probe(&runtime, plan)),
    }
}

/// Returns the bound of all mailboxes in a run.
fn bound(plan: &Plan) -> Bound {
    match (plan.bounding, plan.bound) {
        (Bounding::Unasked, _) => Bound::DEFAULT,
        (_, None) => Bound::Unbounded,
        (Bounding::Soft, Some(bound)) => Bound::Soft(bound),
        (Bounding::Hard, Some(bound)) => Bound::Hard(bound, Overflow::Wait),
    }
}

/// Returns the share of `total` that part `index` of `parts` has.
fn share(total: u64, parts: u64, index: u64) -> u64 {
    total / parts + u64::from(index < total % parts)
}
