//! Parameters that users vary. A sweep has rows of the same workloads that differ in one parameter.

use crate::cases::Case;
use crate::names::named;
use crate::plan::{Bounding, Style, Via, Workload};
use crate::sizes::{Scale, size};
use crate::system::System;
use std::time::Duration;

/// The parameter that is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sweep {
    Payload,
    Pairs,
    Processes,
    Bound,
    Via,
    Style,
}

named!(
    Sweep,
    "sweep",
    [Payload = "payload", Pairs = "pairs", Processes = "processes", Bound = "bound", Via = "via", Style = "style",]
);

/// Payload sizes, in bytes.
const PAYLOADS: [usize; 5] = [0, 32, 256, 512, 4_096];

/// Maximum memory for the messages of one run, in case all of them wait at once.
const BACKLOG_BYTES: u64 = 1 << 30;

const PAIRS: [u64; 7] = [1, 4, 16, 64, 256, 1_024, 4_096];

/// Capacities of mailboxes, in messages. `None` means that there is no bound.
const BOUNDS: [Option<usize>; 4] = [None, Some(1_024), Some(64), Some(8)];

/// Factor by which fewer messages are sent at hard bounds. There, each wait for room makes the kernel switch threads,
/// which takes tens of microseconds.
const SLOWER_AT_HARD_BOUNDS: u64 = 50;

/// Memory that must be free per process before the largest numbers of processes are started. A process should take a
/// fifth of it.
const ROOM_BYTES: u64 = 1 << 10;

/// Maximum number of processes for which all systems are run. With more, the other systems take gigabytes.
const MOST_FOR_ALL: u64 = 1_000_000;

impl Sweep {
    /// Returns the rows of the sweep.
    pub fn cases(self, scale: Scale) -> Vec<Case> {
        match self {
            Self::Payload => payloads(scale),
            Self::Pairs => PAIRS
                .iter()
                .map(|&pairs| Case { width: Some(pairs), ..case(Workload::PingPongPairs, "pairs", pairs) })
                .collect(),
            Self::Processes => processes(scale),
            Self::Bound => [Workload::PingPong, Workload::Counting, Workload::FanIn]
                .into_iter()
                .flat_map(|workload| bounds(workload, scale))
                .collect(),
            Self::Via => across([Workload::PingPong, Workload::Counting], Via::ALL, |workload, &via| Case {
                via,
                ..case(workload, "via", via)
            }),
            Self::Style => {
                let workloads = [Workload::PingPong, Workload::Counting, Workload::FanIn];
                across(workloads, Style::ALL, |workload, &style| Case { style, ..case(workload, "style", style) })
            }
        }
    }
}

/// Returns a row whose name includes the varied parameter.
fn case(workload: Workload, varied: &str, value: impl std::fmt::Display) -> Case {
    Case { name: format!("{workload} {varied}={value}"), ..Case::of(workload) }
}

fn across<T>(
    workloads: impl IntoIterator<Item = Workload>,
    values: &[T],
    case: impl Fn(Workload, &T) -> Case,
) -> Vec<Case> {
    workloads
        .into_iter()
        .flat_map(|workload| values.iter().map(|value| case(workload, value)).collect::<Vec<_>>())
        .collect()
}

fn payloads(scale: Scale) -> Vec<Case> {
    across([Workload::PingPong, Workload::Counting], &PAYLOADS, |workload, &payload| {
        let most = BACKLOG_BYTES / payload.max(1) as u64;
        let size = size(workload, Duration::ZERO, System::Postroom, scale).min(most);
        Case { payload, size: Some(size), ..case(workload, "payload", payload) }
    })
}

/// Returns rows without a bound, and then with ever smaller bounds. At a soft bound, a process of Postroom sends all
/// messages of a step (here up to a thousand) before it is suspended. Only at a hard bound does it wait in the send, as
/// processes of the other systems do.
fn bounds(workload: Workload, scale: Scale) -> Vec<Case> {
    let soft = BOUNDS.iter().map(|&bound| {
        let shown = bound.map_or_else(|| "none".to_string(), |bound| bound.to_string());
        Case { bound, bounding: Bounding::Soft, ..case(workload, "bound", shown) }
    });
    let few = size(workload, Duration::ZERO, System::Postroom, scale) / SLOWER_AT_HARD_BOUNDS;
    let hard = BOUNDS.iter().flatten().map(|&bound| Case {
        bound: Some(bound),
        size: Some(few),
        bounding: Bounding::Hard,
        systems: Some(&[System::Postroom]),
        ..case(workload, "hard", bound)
    });
    soft.chain(hard).collect()
}

fn processes(scale: Scale) -> Vec<Case> {
    let largest: u64 = if scale == Scale::Full { 10_000_000 } else { 1_000_000 };
    let most_for_all = if scale == Scale::Full { MOST_FOR_ALL } else { MOST_FOR_ALL / 100 };
    let sizes = (3..=largest.ilog10()).map(|exponent| 10_u64.pow(exponent));
    let rows = sizes.map(|size| Case {
        size: Some(size),
        room_kib: if size > most_for_all { size * ROOM_BYTES / 1_024 } else { 0 },
        systems: (size > most_for_all).then_some(&[System::Postroom][..]),
        ..case(Workload::IdleMemory, "processes", size)
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_postroom_starts_ten_million_processes() {
        let cases = Sweep::Processes.cases(Scale::Full);
        let (largest, others) = cases.split_last().unwrap();
        assert_eq!((largest.size, largest.is_for(System::Postroom)), (Some(10_000_000), true));
        assert!(!largest.is_for(System::Xtra));
        assert!(others.iter().all(|case| case.is_for(System::Ractor)));
        assert_eq!(cases[0].name, "idle_memory processes=1000");
    }

    #[test]
    fn large_messages_are_few_enough_to_wait_in_memory() {
        for case in Sweep::Payload.cases(Scale::Full) {
            assert!(case.size.unwrap() * case.payload as u64 <= BACKLOG_BYTES, "{}", case.name);
        }
    }

    #[test]
    fn postroom_is_measured_at_soft_and_at_hard_bounds_and_all_others_at_theirs() {
        let cases = Sweep::Bound.cases(Scale::Quick);
        let of =
            |bounding, system| cases.iter().filter(|case| case.bounding == bounding && case.is_for(system)).count();
        assert_eq!((of(Bounding::Soft, System::Postroom), of(Bounding::Hard, System::Postroom)), (12, 9));
        assert_eq!((of(Bounding::Soft, System::Tokio), of(Bounding::Hard, System::Tokio)), (12, 0));
        assert!(cases.iter().all(|case| case.is_required), "Postroom can do all of them");
    }

    #[test]
    fn each_sweep_has_rows_of_different_names() {
        for sweep in Sweep::ALL {
            let mut names: Vec<_> = sweep.cases(Scale::Quick).into_iter().map(|case| case.name).collect();
            let count = names.len();
            names.sort();
            names.dedup();
            assert!(count > 1 && names.len() == count, "{sweep}");
        }
    }
}
