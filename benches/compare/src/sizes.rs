//! The sizes of the workloads. Results are per operation, so the sizes are chosen only for the time that a run takes.
//! At full sizes, a run should take from a third of a second to two seconds on the slowest of the systems that start
//! processes quickly.

use crate::plan::Workload;
use crate::system::System;
use std::time::Duration;

/// The scale of a comparison. It determines how long the comparison takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The scale for figures to be published.
    Full,
    /// The scale for a check that everything works. Its figures are rough.
    Quick,
}

impl Scale {
    fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }

    /// Describes the scale for people.
    pub fn describe(self) -> &'static str {
        self.pick("full sizes", "quick sizes (rough figures)")
    }

    /// Returns the time after which a run counts as hung.
    pub fn limit(self) -> Duration {
        self.pick(Duration::from_secs(60), Duration::from_secs(20))
    }
}

/// Returns the number of processes that take part, or zero if the workload has no such number.
pub fn width(workload: Workload, scale: Scale) -> u64 {
    match workload {
        Workload::PingPongPairs => 64,
        Workload::ThreadRing | Workload::TellInTurn => 100,
        Workload::FanIn | Workload::Axum | Workload::AxumMutex => 16,
        Workload::FanOut => 1_000,
        Workload::Big => 120,
        Workload::NQueens => scale.pick(12, 9),
        Workload::Matrix => scale.pick(768, 192),
        Workload::Pipeline => 4,
        Workload::Chameneos => 100,
        Workload::Philosophers | Workload::Dictionary => 20,
        Workload::AskFromTasks | Workload::TellFromTasks => 1,
        Workload::Banking => 1_000,
        Workload::ProbeFlood => scale.pick(10_000, 1_000),
        Workload::ProbeTimers => scale.pick(1_000_000, 20_000),
        _ => 0,
    }
}

/// Returns the number of operations, in the workload's own unit. `work` is the work of the pipeline at each stage.
pub fn size(workload: Workload, work: Duration, system: System, scale: Scale) -> u64 {
    let (full, quick) = match workload {
        Workload::PingPong | Workload::ThreadRing if system.is_slow_across_threads() => (200_000, 10_000),
        Workload::PingPong | Workload::PingPongPairs | Workload::ThreadRing => (4_000_000, 100_000),
        Workload::Counting => (4_000_000, 200_000),
        Workload::FanIn | Workload::FanOut => (3_200_000, 160_000),
        Workload::ForkJoinCreate | Workload::IdleMemory if system.is_slow_to_spawn() => (100_000, 5_000),
        Workload::ForkJoinCreate => (1_000_000, 50_000),
        Workload::IdleMemory => (1_000_000, 50_000),
        Workload::Big => (2_400_000, 120_000),
        Workload::Skynet if system.is_slow_to_spawn() => (100_000, 10_000),
        Workload::Skynet => (1_000_000, 10_000),
        Workload::Ask => (1_000_000, 30_000),
        Workload::WakeLatency => (400, 20),
        Workload::AskFromTasks => (200_000, 10_000),
        Workload::TellFromTasks | Workload::TellInTurn => (4_000_000, 100_000),
        Workload::AskFromThread if system.is_slow_across_threads() => (2_000, 200),
        Workload::AskFromThread => (50_000, 1_000),
        Workload::Axum | Workload::AxumMutex => (100_000, 4_000),
        Workload::NQueens | Workload::Matrix => (1, 1),
        Workload::Pipeline => stages_in(work, scale.pick(Duration::from_millis(200), Duration::from_millis(5))),
        Workload::Chameneos => (400_000, 10_000),
        Workload::Philosophers | Workload::Banking => (200_000, 10_000),
        Workload::RadixSort => (100_000, 4_000),
        Workload::Dictionary => (400_000, 20_000),
        // Each message of a probe takes a millisecond or a little more.
        Workload::ProbeIdle
        | Workload::ProbeFlood
        | Workload::ProbeBlocking
        | Workload::ProbeTold
        | Workload::ProbeLooping
        | Workload::ProbeTimers => (10_000, 500),
    };
    scale.pick(full, quick)
}

/// Returns how long each message computes. For a probe, returns how long a step of its load takes, or how far apart its
/// timers fire.
pub fn work(workload: Workload, scale: Scale) -> Duration {
    match workload {
        Workload::ProbeBlocking | Workload::ProbeTold | Workload::ProbeLooping | Workload::ProbeTimers => {
            scale.pick(Duration::from_secs(1), Duration::from_millis(100))
        }
        _ => Duration::ZERO,
    }
}

/// Returns the sizes, for both scales, of a pipeline in which each stage computes for `time` in total.
fn stages_in(work: Duration, time: Duration) -> (u64, u64) {
    let messages = (time.as_nanos() / work.as_nanos().max(1)).max(1) as u64;
    (messages, messages)
}

/// Returns `size`, rounded up so that all participants have equal shares.
pub fn shared_evenly(workload: Workload, size: u64, width: u64) -> u64 {
    let shares = match workload {
        // In each pair, a ball goes there and back. Each process of `Big` handles a ping and a pong.
        Workload::PingPongPairs | Workload::Big => 2 * width,
        Workload::FanIn
        | Workload::FanOut
        | Workload::Philosophers
        | Workload::Dictionary
        | Workload::AskFromTasks
        | Workload::TellFromTasks
        | Workload::Axum
        | Workload::AxumMutex => width,
        _ => 1,
    };
    size.next_multiple_of(shares.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even() {
        assert_eq!(shared_evenly(Workload::PingPongPairs, 1_000, 64), 1_024);
        assert_eq!(shared_evenly(Workload::FanIn, 1_000, 16), 1_008);
        assert_eq!(shared_evenly(Workload::Skynet, 1_000, 0), 1_000);
    }

    #[test]
    fn skynet_has_a_power_of_ten_of_leaves() {
        for &system in System::ALL {
            for scale in [Scale::Full, Scale::Quick] {
                let leaves = size(Workload::Skynet, Duration::ZERO, system, scale);
                assert_eq!(10_u64.pow(leaves.ilog10()), leaves);
            }
        }
    }

    #[test]
    fn stages_compute_for_about_the_same_time_whatever_a_message_costs() {
        let messages = |work| size(Workload::Pipeline, Duration::from_micros(work), System::Tokio, Scale::Full);
        assert_eq!((messages(1), messages(100)), (200_000, 2_000));
    }
}
