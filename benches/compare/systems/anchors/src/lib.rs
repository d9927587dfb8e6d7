//! Anchors: libraries that are no alternative to Postroom, since they leave out costly features, but that show how fast
//! a message can be. Each of them runs the workloads for which it has a natural way, and returns `None` for the others.

mod kanal;
mod local_sync;
mod nexosim;
mod stakker;

pub use crate::kanal::run as kanal;
pub use crate::local_sync::run as local_sync;
pub use crate::nexosim::run as nexosim;
pub use crate::stakker::run as stakker;

use compare_frame::plan::{Outcome, Plan, Style, Via};
use std::time::Duration;

/// Number of messages that a task sends before it yields, if mailboxes have no bound. The workloads on Tokio do the
/// same.
const LITTER: u64 = 100;

/// Returns true if the plan varies no parameter that only some systems have.
fn is_plain(plan: &Plan) -> bool {
    plan.payload == 0 && plan.bound.is_none() && plan.via == Via::Address && plan.style == Style::Natural
}

fn outcome(elapsed: Duration, operations: u64, check: u64) -> Outcome {
    Outcome { elapsed, operations, check, ..Outcome::default() }
}

/// Returns the share of `size` that process `index` of `width` has.
fn share(size: u64, width: u64, index: u64) -> u64 {
    size / width + u64::from(index < size % width)
}

/// A number from one of several producers.
#[derive(Clone, Copy)]
struct FromOne {
    producer: usize,
    number: u64,
}

/// The numbers that a consumer has received so far. It checks their order.
#[derive(Default)]
struct Sum {
    expected: Vec<u64>,
    sum: u64,
}

impl Sum {
    fn of(producers: u64) -> Self {
        Self { expected: vec![0; producers as usize], sum: 0 }
    }

    fn add(&mut self, FromOne { producer, number }: FromOne) {
        let expected = &mut self.expected[producer];
        assert_eq!(number, *expected, "each producer's messages in the order they were sent in");
        *expected += 1;
        self.sum += number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compare_frame::plan::{Bounding, Workload};

    type Run = fn(&Plan) -> Option<Outcome>;

    const ALL: [(&str, Run); 4] =
        [("stakker", stakker), ("nexosim", nexosim), ("kanal", kanal), ("local-sync", local_sync)];

    fn plan(workload: Workload, size: u64, width: u64) -> Plan {
        let (via, style, work) = (Via::Address, Style::Natural, Duration::ZERO);
        let bounding = Bounding::Unasked;
        Plan { workload, workers: 1, size, width, payload: 0, bound: None, bounding, via, style, work }
    }

    /// There is only one test, since stakker may run on only one thread of a program. The sizes exceed those of
    /// mailboxes and batches, and are not multiples of them.
    #[test]
    fn each_anchor_does_the_four_workloads_that_all_must_do_and_what_it_has_no_way_for_is_absent() {
        for (name, run) in ALL {
            for (plan, check) in [
                (plan(Workload::PingPong, 3_001, 0), 3_001),
                (plan(Workload::Counting, 3_001, 0), 3_001 * 3_000 / 2),
                (plan(Workload::FanIn, 3_003, 3), 3 * 1_001 * 1_000 / 2),
                (plan(Workload::Ask, 1_001, 0), 1_001 * 1_002 / 2),
            ] {
                let outcome = run(&plan).unwrap_or_else(|| panic!("{name} must do {}", plan.workload));
                assert_eq!((outcome.operations, outcome.check), (plan.size, check), "{name}, {}", plan.workload);
                let latencies = if plan.workload == Workload::Ask { plan.size } else { 0 };
                assert_eq!(outcome.latencies.len() as u64, latencies, "{name}");
            }
            let plain = plan(Workload::PingPong, 10, 0);
            assert!(run(&Plan { payload: 32, ..plain.clone() }).is_none(), "{name}");
            assert!(run(&Plan { via: Via::Name, ..plain.clone() }).is_none(), "{name}");
            assert!(run(&plan(Workload::NQueens, 1, 4)).is_none(), "{name}");
            let has_threads = matches!(name, "nexosim" | "kanal");
            assert_eq!(run(&Plan { workers: 2, ..plain }).is_some(), has_threads, "{name}");
        }
    }
}
