//! kameo: actors on Tokio's tasks and channels, with handlers that are futures.

mod banking;
mod big;
mod births;
mod calls;
mod compute;
mod data;
mod flows;
mod idle;
mod meetings;
mod outside;
mod passing;
mod probe;
mod stage;

use compare_frame::{kernel, plan};

use crate::plan::{Outcome, Plan, Style, Via, Workload};

pub fn run(plan: &Plan) -> Option<Outcome> {
    if plan.via != Via::Address || plan.style != Style::Natural {
        return None;
    }
    // In these workloads, processes that send to each other would wait for room in each other's mailboxes, in the worst
    // case forever.
    let goes_in_circles =
        matches!(plan.workload, Workload::Big | Workload::NQueens | Workload::Matrix | Workload::Banking);
    if goes_in_circles && plan.bound.is_some() {
        return None;
    }
    Some(match plan.workload {
        Workload::PingPong => return passing::ping_pong(plan),
        Workload::PingPongPairs => passing::pairs(plan),
        Workload::ThreadRing => passing::ring(plan),
        Workload::Counting => return flows::counting(plan),
        Workload::FanIn => flows::fan_in(plan),
        Workload::FanOut => flows::fan_out(plan),
        Workload::ForkJoinCreate => births::fork_join_create(plan),
        Workload::Big => big::big(plan),
        Workload::Skynet => births::skynet(plan),
        Workload::IdleMemory => idle::idle_memory(plan),
        Workload::Ask => calls::ask(plan),
        Workload::WakeLatency => calls::wake_latency(plan),
        Workload::AskFromTasks => outside::ask_from_tasks(plan),
        Workload::TellFromTasks => outside::tell_from_tasks(plan),
        Workload::TellInTurn => outside::tell_in_turn(plan),
        Workload::AskFromThread => outside::ask_from_thread(plan),
        Workload::Axum => outside::axum(plan),
        Workload::AxumMutex => return None,
        Workload::NQueens => compute::nqueens(plan),
        Workload::Matrix => compute::matrix(plan),
        Workload::Pipeline => compute::pipeline(plan),
        Workload::Chameneos => meetings::chameneos(plan),
        Workload::Philosophers => meetings::philosophers(plan),
        Workload::Banking => banking::banking(plan),
        Workload::RadixSort => data::radix_sort(plan),
        Workload::Dictionary => data::dictionary(plan),
        Workload::ProbeIdle
        | Workload::ProbeFlood
        | Workload::ProbeBlocking
        | Workload::ProbeTold
        | Workload::ProbeLooping
        | Workload::ProbeTimers => return plan.bound.is_none().then(|| probe::probe(plan)),
    })
}
