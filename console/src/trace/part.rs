//! What a call's time is made of.

use postroom::Pid;
use std::time::Duration;

/// A process in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TracedProcess {
    /// Its PID.
    pub pid: Pid,
    /// Its type; empty if the recording does not show it.
    pub of: &'static str,
}

/// Why time passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// A call, from its send until the answer was taken; or a message, until it was handled.
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
        /// The type of the message that it handled; none if it ran its entry or a continuation.
        message: Option<&'static str>,
    },
    /// A process was ready, and no worker ran it.
    Worker {
        /// The process.
        process: TracedProcess,
    },
    /// The worker ran another process.
    Busy {
        /// The process that ran.
        process: TracedProcess,
        /// The type of the message that it handled.
        message: Option<&'static str>,
        /// Its step exceeded the stall limit, or lost its worker.
        is_stalled: bool,
    },
    /// The worker ran nothing, and had not begun with the process.
    Waking {
        /// The process that was ready.
        process: TracedProcess,
    },
    /// A process was suspended, because it had sent to a full mailbox.
    Suspended {
        /// The process.
        process: TracedProcess,
        /// Whose mailbox is full.
        at: TracedProcess,
    },
    /// A process awaited a timer that was not due.
    Timer {
        /// The process.
        process: TracedProcess,
        /// The type of the message that it handled, if it did.
        message: Option<&'static str>,
    },
    /// The timer was due, and had not fired.
    LateTimer {
        /// The process.
        process: TracedProcess,
        /// The type of the message that it handled, if it did.
        message: Option<&'static str>,
    },
    /// A process blocked its thread: it waited in place, for an answer or a lock perhaps.
    Blocked {
        /// The process.
        process: TracedProcess,
        /// The type of the message that it handled, if it did.
        message: Option<&'static str>,
    },
    /// The method had returned, and the answer came later: from a continuation or another process.
    Deferred {
        /// The process that was called.
        by: TracedProcess,
    },
    /// A process awaited something that is not recorded: a channel, input, another runtime.
    Outside {
        /// The process.
        process: TracedProcess,
        /// The type of the message that it handled, if it did.
        message: Option<&'static str>,
    },
    /// The message waited for itself: a cycle of calls.
    Cycle,
    /// Not known: records of that time were lost, or the recording had not begun.
    Unknown,
    /// Known, and not taken apart: there are too many parts.
    Remainder,
}

impl Cause {
    /// Returns whether a change of the program could remove the time, so that it makes sense to ask what would be
    /// without it. A part that only has others in it is not removed by itself.
    pub(super) fn is_removable(&self) -> bool {
        !matches!(
            self,
            Self::Message { .. } | Self::Mailbox { .. } | Self::Handling { .. } | Self::Unknown | Self::Remainder
        )
    }
}

/// A part of the time that a call took. The parts of a part are its whole: their times add up to its time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Part {
    /// Why the time passed.
    pub cause: Cause,
    /// How long.
    pub took: Duration,
    /// How many times: of [`Cause::Behind`], the messages.
    pub count: u64,
    /// What it is made of, the first first; nothing if it is of one kind.
    pub parts: Vec<Part>,
}

impl Part {
    /// Returns the parts worth showing, in their order, and the others: those below a hundredth of the whole, and all
    /// but the longest if there are too many.
    pub(super) fn main_parts(&self, whole: Duration, most: usize) -> (Vec<&Part>, Vec<&Part>) {
        let mut longest: Vec<Duration> = self.parts.iter().map(|part| part.took).collect();
        longest.sort_unstable_by(|a, b| b.cmp(a));
        let least = longest.get(most).map_or(Duration::ZERO, |next| *next + Duration::from_nanos(1));
        let is_shown = |part: &&Part| part.took >= least && part.took.as_nanos() * 100 >= whole.as_nanos();
        let (shown, others): (Vec<_>, Vec<_>) = self.parts.iter().partition(is_shown);
        // One line says as much as another.
        if others.len() == 1 { (self.parts.iter().collect(), Vec::new()) } else { (shown, others) }
    }
}

/// A step of the critical path: what nothing else went on beside that could have made the call faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStep {
    /// Why the time passed.
    pub cause: Cause,
    /// When it began, since the recording began.
    pub from: Duration,
    /// How long.
    pub took: Duration,
}

/// The one change that would have helped most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remedy {
    /// What to remove.
    pub without: Cause,
    /// How long the call would then have taken, if all else took as long as it did.
    pub then: Duration,
}

/// An interval before intervals of one cause are merged.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    pub(super) cause: Cause,
    pub(super) from: u64,
    pub(super) to: u64,
    /// They follow each other, from the beginning to the end.
    pub(super) parts: Vec<Interval>,
    /// What went on beside it, that would have taken this time without it.
    pub(super) beside: Vec<Interval>,
}

impl Interval {
    pub(super) fn leaf(cause: Cause, from: u64, to: u64) -> Self {
        Self { cause, from, to, parts: Vec::new(), beside: Vec::new() }
    }

    /// Makes an interval of its parts; it is of one kind if these have no length.
    pub(super) fn of(cause: Cause, from: u64, to: u64, parts: Vec<Self>) -> Self {
        debug_assert!(parts.is_empty() || sum(&parts) == to - from, "{cause:?} {from} {to} {parts:?}");
        Self { cause, from, to, parts, beside: Vec::new() }
    }

    pub(super) fn length(&self) -> u64 {
        self.to - self.from
    }

    /// Returns how long it would be without that cause.
    pub(super) fn without(&self, cause: &Cause) -> u64 {
        let own = match &self.parts {
            _ if self.cause == *cause => 0,
            none if none.is_empty() => self.length(),
            parts => parts.iter().map(|part| part.without(cause)).sum(),
        };
        own.max(self.beside.iter().map(|part| part.without(cause)).sum())
    }

    /// Adds how long each removable cause took, in the order of their first appearance, outer ones first.
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

    /// Adds the leaves, in the order of time; neighbours with one cause are one.
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

/// Makes parts with one cause one part, and leaves out those without length.
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
