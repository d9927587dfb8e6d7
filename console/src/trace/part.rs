//! The parts of a call's time, and their causes.

use postroom::Pid;
use std::time::Duration;

/// A process in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TracedProcess {
    /// The PID.
    pub pid: Pid,
    /// The type; empty if the recording does not contain it.
    pub of: &'static str,
}

/// What a period of time was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// A call, from its send until its answer was taken; or a message, until it was handled.
    Message {
        /// The receiver.
        to: TracedProcess,
        /// The type of the message.
        message: &'static str,
    },
    /// The message was in the mailbox.
    Mailbox {
        /// The receiver.
        of: TracedProcess,
    },
    /// The receiver handled other messages first.
    Behind {
        /// The receiver.
        of: TracedProcess,
        /// The type of those messages.
        message: &'static str,
    },
    /// The receiver handled the message.
    Handling {
        /// The receiver.
        by: TracedProcess,
        /// The type of the message.
        message: &'static str,
    },
    /// A process ran on a worker.
    Running {
        /// The process.
        process: TracedProcess,
        /// The type of the message that the process handled; none if it ran its entry or a continuation.
        message: Option<&'static str>,
    },
    /// A process was ready, but no worker ran it.
    Worker {
        /// The process.
        process: TracedProcess,
    },
    /// The worker ran another process.
    Busy {
        /// The process that ran.
        process: TracedProcess,
        /// The type of the message that it handled, if any.
        message: Option<&'static str>,
        /// Whether its step exceeded the stall limit or lost its worker.
        is_stalled: bool,
    },
    /// The worker was idle, and had not yet begun to run the process.
    Waking {
        /// The process that was ready.
        process: TracedProcess,
    },
    /// A process was suspended because it had sent to a full mailbox.
    Suspended {
        /// The process.
        process: TracedProcess,
        /// The process whose mailbox was full.
        at: TracedProcess,
    },
    /// A process awaited a timer that was not due yet.
    Timer {
        /// The process.
        process: TracedProcess,
        /// The type of the message that it handled, if any.
        message: Option<&'static str>,
    },
    /// A timer was due but had not fired.
    LateTimer {
        /// The process.
        process: TracedProcess,
        /// The type of the message that it handled, if any.
        message: Option<&'static str>,
    },
    /// A process blocked its thread, for example by waiting in place for an answer or a lock.
    Blocked {
        /// The process.
        process: TracedProcess,
        /// The type of the message that it handled, if any.
        message: Option<&'static str>,
    },
    /// The method had returned, but the answer came later, from a continuation or another process.
    Deferred {
        /// The process that was called.
        by: TracedProcess,
    },
    /// A process awaited something that is not recorded, such as a channel, input or another runtime.
    Outside {
        /// The process.
        process: TracedProcess,
        /// The type of the message that it handled, if any.
        message: Option<&'static str>,
    },
    /// The message waited for itself, in a cycle of calls.
    Cycle,
    /// Unknown: records of that time were lost, or the recording had not begun.
    Unknown,
    /// Not broken down further, because there are too many parts or they are nested too deeply.
    Remainder,
}

impl Cause {
    /// Returns whether a change to the program could remove this cause. A cause that only contains other causes cannot
    /// be removed by itself.
    pub(super) fn is_removable(&self) -> bool {
        !matches!(
            self,
            Self::Message { .. } | Self::Mailbox { .. } | Self::Handling { .. } | Self::Unknown | Self::Remainder
        )
    }
}

/// A part of the time that a call took. If it has sub-parts, their times add up to its time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// What the time was spent on.
    pub cause: Cause,
    /// Duration of the part.
    pub took: Duration,
    /// Number of times that the cause occurred; for [`Cause::Behind`], the number of messages.
    pub count: u64,
    /// The sub-parts, in order of first occurrence; empty if this part is not divided.
    pub parts: Vec<Part>,
}

impl Part {
    /// Returns the parts worth showing, in order, and the others: those shorter than a hundredth of `whole`, and all
    /// but the `most` longest.
    pub(super) fn main_parts(&self, whole: Duration, most: usize) -> (Vec<&Part>, Vec<&Part>) {
        let mut longest: Vec<Duration> = self.parts.iter().map(|part| part.took).collect();
        longest.sort_unstable_by(|a, b| b.cmp(a));
        let least = longest.get(most).map_or(Duration::ZERO, |next| *next + Duration::from_nanos(1));
        let is_shown = |part: &&Part| part.took >= least && part.took.as_nanos() * 100 >= whole.as_nanos();
        let (shown, others): (Vec<_>, Vec<_>) = self.parts.iter().partition(is_shown);
        // If there is only a single other part, it is shown too, since a summary would take as many lines.
        if others.len() == 1 { (self.parts.iter().collect(), Vec::new()) } else { (shown, others) }
    }
}

/// A step of the critical path, the sequence of activities that determined how long the call took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStep {
    /// What the time was spent on.
    pub cause: Cause,
    /// When the step began, measured from the beginning of the recording.
    pub from: Duration,
    /// Duration of the step.
    pub took: Duration,
}

/// The single change that would have helped most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remedy {
    /// The cause to remove.
    pub without: Cause,
    /// How long the call would then have taken, if everything else took as long as it did.
    pub then: Duration,
}

/// An interval, before intervals with the same cause are merged.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    pub(super) cause: Cause,
    pub(super) from: u64,
    pub(super) to: u64,
    /// Consecutive intervals that fill this one.
    pub(super) parts: Vec<Interval>,
    /// Activities in parallel with this interval. Even if the parts of the interval had been shorter, these would have
    /// taken as long as they did.
    pub(super) beside: Vec<Interval>,
}

impl Interval {
    pub(super) fn leaf(cause: Cause, from: u64, to: u64) -> Self {
        Self { cause, from, to, parts: Vec::new(), beside: Vec::new() }
    }

    /// Returns an interval that is filled by these parts, or a leaf if there are none.
    pub(super) fn of(cause: Cause, from: u64, to: u64, parts: Vec<Self>) -> Self {
        debug_assert!(parts.is_empty() || sum(&parts) == to - from, "{cause:?} {from} {to} {parts:?}");
        Self { cause, from, to, parts, beside: Vec::new() }
    }

    pub(super) fn length(&self) -> u64 {
        self.to - self.from
    }

    /// Returns how long the interval would have been without this cause.
    pub(super) fn without(&self, cause: &Cause) -> u64 {
        let own = match &self.parts {
            _ if self.cause == *cause => 0,
            none if none.is_empty() => self.length(),
            parts => parts.iter().map(|part| part.without(cause)).sum(),
        };
        own.max(self.beside.iter().map(|part| part.without(cause)).sum())
    }

    /// Adds each removable cause and its total length, in order of first appearance, outer causes first.
    pub(super) fn causes(&self, causes: &mut Vec<Cause>, lengths: &mut std::collections::HashMap<Cause, u64>) {
        if self.cause.is_removable() && self.length() > 0 {
            let length = lengths.entry(self.cause).or_insert_with(|| {
                causes.push(self.cause);
                0
            });
            *length = length.saturating_add(self.length());
        }
        self.parts.iter().for_each(|part| part.causes(causes, lengths));
    }

    /// Adds the leaves in order of time, with adjacent leaves of the same cause merged.
    pub(super) fn path(&self, path: &mut Vec<PathStep>) {
        if !self.parts.is_empty() {
            return self.parts.iter().for_each(|part| part.path(path));
        }
        let took = Duration::from_nanos(self.length());
        match path.last_mut() {
            _ if took.is_zero() => {}
            Some(last) if last.cause == self.cause => last.took += took,
            _ => path.push(PathStep { cause: self.cause, from: Duration::from_nanos(self.from), took }),
        }
    }

    pub(super) fn into_part(self) -> Part {
        let took = Duration::from_nanos(self.length());
        Part { cause: self.cause, took, count: 1, parts: merged(self.parts.into_iter().map(Self::into_part)) }
    }
}

pub(super) fn sum(intervals: &[Interval]) -> u64 {
    intervals.iter().map(Interval::length).sum()
}

/// Merges parts that have the same cause, and removes parts of length zero.
fn merged(parts: impl IntoIterator<Item = Part>) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for part in parts {
        let place = *places.entry(part.cause).or_insert(all.len());
        match all.get_mut(place) {
            None => all.push(part),
            Some(same) => {
                same.took += part.took;
                same.count += part.count;
                same.parts.extend(part.parts);
            }
        }
    }
    all.retain(|part| !part.took.is_zero());
    for part in &mut all {
        part.parts = merged(std::mem::take(&mut part.parts));
    }
    all
}
