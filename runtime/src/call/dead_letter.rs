//! Messages that no process will handle any more, and where a thread brings them.

use crate::mailbox::payload::Payload;
use crate::pid::Pid;
use crate::util::defer::defer;
use std::cell::Cell;
use std::fmt;

/// A message that no process will handle any more, as the dead-letter hook gets it.
#[derive(Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Whom it was sent to.
    pub to: Pid,
    /// The message.
    pub message: Payload,
    /// Why it is dead.
    pub reason: DeadLetterReason,
}

/// Why a message is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadLetterReason {
    /// The process ended before it came to this message.
    Ended,
    /// The process has no method for messages of this type.
    Unhandled,
    /// The mailbox had no room for it, and this is what its bound says.
    Overflow,
    /// It waited in the line of a pool for as long as it may.
    Expired,
    /// Its call failed as a cycle before the process came to it.
    Withdrawn,
}

impl fmt::Display for DeadLetterReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "the process ended before it came to the message",
            Self::Overflow => "the mailbox had no room for the message",
            Self::Unhandled => "the process has no method for messages of this type",
            Self::Expired => "no member of the pool came to the message in time",
            Self::Withdrawn => "its call would have waited for itself",
        })
    }
}

/// A message that a part of the runtime sends to a process of its own. It is no dead letter when that one has ended.
pub(crate) struct Internal(pub(crate) Payload);

/// Where dead letters go: to the hook and the counts of a host.
pub(crate) trait Sink: Send + Sync {
    /// Counts the letter and shows it to the hook.
    fn dead_letter(&self, letter: DeadLetter);
}

thread_local! {
    static SINK: Cell<Option<&'static dyn Sink>> = const { Cell::new(None) };
}

/// From here on dead letters of this thread go to `sink`.
pub(crate) fn set_sink(sink: Option<&'static dyn Sink>) {
    SINK.set(sink);
}

/// Runs `body` with that as the place for this thread's dead letters.
pub(crate) fn while_sinking_into(sink: &'static dyn Sink, body: impl FnOnce()) {
    let outer = SINK.replace(Some(sink));
    let _restore = defer(|| SINK.set(outer));
    body();
}

/// Brings `letter` where this thread's dead letters go; without such a place it is dropped.
pub(crate) fn bring(letter: DeadLetter) {
    if let Some(sink) = SINK.try_with(Cell::get).ok().flatten() {
        sink.dead_letter(letter);
    }
}
