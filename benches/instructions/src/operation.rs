//! The operations that are measured.

use crate::compare::ATOMICS_SLACK;
use crate::{large, passing, services};

/// An operation of the runtime, as a process sees it. All operations run on one worker that always has work. So neither
/// searches for work nor sleeps are counted. The thread outside sleeps until the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A process sends a message to another one by its address. This is the sending part of `Counting`.
    Send,
    /// A process receives and handles a message. This is all of `Counting` except the sending part.
    Receive,
    /// One process sends in steps of 1,000 messages, and another one receives them.
    Counting,
    /// A message from one of two processes to the other, which it wakes.
    PingPong,
    /// A message goes round among a hundred processes, each of which has been idle for a while.
    Ring,
    /// Like `PingPong`, while the runtime is recorded.
    Recorded,
    /// An async process calls another one and gets the answer.
    Call,
    /// A process spawns another one, whose entry stops it. What is measured is the spawn, the only step and the exit of
    /// the new process.
    Spawn,
    /// An async process starts to sleep for an hour and gives up. So a timer is set and cancelled, as most timers are.
    /// (For a timer that fires, the worker would have to wait.)
    Timer,
    /// A message of 512 bytes that one process passes on to another one, which it wakes.
    Carry512,
    /// Like `Carry512` with 4,096 bytes. The payload is moved to the message and to the method, but not anywhere else.
    Carry4096,
}

/// All operations.
pub const OPERATIONS: [Operation; 11] = [
    Operation::Send,
    Operation::Receive,
    Operation::Counting,
    Operation::PingPong,
    Operation::Ring,
    Operation::Recorded,
    Operation::Call,
    Operation::Spawn,
    Operation::Timer,
    Operation::Carry512,
    Operation::Carry4096,
];

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Counting => "counting",
            Self::PingPong => "ping_pong",
            Self::Ring => "ring",
            Self::Recorded => "recorded",
            Self::Call => "call",
            Self::Spawn => "spawn",
            Self::Timer => "timer",
            Self::Carry512 => "carry_512",
            Self::Carry4096 => "carry_4096",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        OPERATIONS.into_iter().find(|operation| operation.name() == name)
    }

    /// Returns the allowed difference between the number of atomic instructions and the recorded number. Where a thread
    /// keeps tokens, the number depends on how many times a tick of the watchdog makes the thread evict them, and
    /// therefore on time. For a ping-pong, 0.05 to 0.13 were counted (3.05 without kept tokens); for a call, 1.1 on a
    /// quiet machine and up to 1.7 beside other programs. For a large message, the number also depends on how long the
    /// copies take.
    pub fn atomics_slack(self) -> f64 {
        match self {
            Self::Call | Self::Carry512 | Self::Carry4096 => 1.0,
            Self::PingPong | Self::Ring | Self::Recorded => 0.3,
            _ => ATOMICS_SLACK,
        }
    }

    /// Performs the operation `count` times.
    pub fn perform(self, count: u64) {
        match self {
            Self::Send | Self::Receive | Self::Counting => passing::counting(count),
            Self::PingPong => passing::ping_pong(count),
            Self::Ring => passing::ring(count),
            Self::Recorded => drop(passing::timed_ping_pong(count, passing::RecordedPart::Whole)),
            Self::Call => services::call(count),
            Self::Spawn => services::spawn(count),
            Self::Timer => services::timer(count),
            Self::Carry512 => large::carry::<504>(count),
            Self::Carry4096 => large::carry::<4_088>(count),
        }
    }

    /// Options that make Callgrind count only a part of the program. They toggle collecting at the entry and at the end
    /// of a function, separately in each thread. (The order of the options matters: naming a function implies starting
    /// without collecting.)
    pub fn collecting(self) -> &'static [&'static str] {
        match self {
            Self::Send => &["--toggle-collect=*::send_batch*", "--collect-atstart=no"],
            Self::Receive => &["--toggle-collect=*::send_batch*", "--collect-atstart=yes"],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_name() {
        for operation in OPERATIONS {
            assert_eq!(Operation::named(operation.name()), Some(operation));
        }
        assert_eq!(Operation::named("sleep"), None);
    }

    /// Each program checks its own result.
    #[test]
    fn every_operation_is_done_as_often_as_it_is_asked_for() {
        for operation in OPERATIONS {
            for count in [1, 1_000, 2_345] {
                operation.perform(count);
            }
        }
    }
}
