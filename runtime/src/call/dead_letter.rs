//! Messages that no process will handle, and where each thread reports them.

use super::caller::Caller;
use crate::{exit::ExitReason, mailbox::payload::Payload, pid::Pid, util::defer::defer};
use std::{cell::Cell, fmt};

/// A message that no process will handle, as passed to the dead-letter hook.
#[derive(Debug)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The PID that it was sent to.
    ///
    /// In a program with several runtimes, a message may arrive when its process has just ended and a process of
    /// another runtime has its place. It is then a dead letter of that runtime, and the PID has the number of that one.
    pub to: Pid,
    /// The process that sent it, if the runtime knows it: a process that awaits the answer to its call. A message that
    /// was sent, not called, carries its sender only with the feature `spans`, and only while a subscriber wants spans.
    pub from: Option<Pid>,
    /// The message.
    pub message: Payload,
    /// The reason.
    pub reason: DeadLetterReason,
    /// Whether a caller learns of the dead letter through an error.
    pub(crate) is_told: bool,
    /// The exit reason of the process that the message was sent to, if it is known.
    pub(crate) exit: Option<ExitReason>,
}

impl DeadLetter {
    pub(crate) fn new(to: Pid, message: Payload, reason: DeadLetterReason, caller: Option<&Caller>) -> Self {
        let is_told = caller.is_some_and(|caller| !caller.was_sent());
        let from = caller.and_then(Caller::pid);
        let from = from.or_else(|| message.origin()?.sender());
        Self { to, from, message, reason, is_told, exit: None }
    }
}

/// The reason why a message was not handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadLetterReason {
    /// The process ended before it took the message.
    Ended,
    /// The process has no method for messages of this type.
    Unhandled,
    /// The mailbox was full. Its bound drops messages, or the message could not wait for room, such as one from a
    /// timer, a publication or a pool.
    Overflow,
    /// The message expired in the queue of a pool, or its caller had stopped waiting when a process declared
    /// `skip_abandoned` reached it.
    Expired,
    /// Its call failed before a process took the message: it would have closed a cycle, or its process had ended when
    /// the message came.
    Withdrawn,
}

impl DeadLetterReason {
    pub(crate) const COUNT: usize = Self::Withdrawn as usize + 1;
}

impl fmt::Display for DeadLetterReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "the process ended before it took the message",
            Self::Overflow => "the mailbox had no room for the message",
            Self::Unhandled => "the process has no method for messages of this type",
            Self::Expired => "its pool or its caller has given it up",
            Self::Withdrawn => "its call had failed before",
        })
    }
}

/// A message that one part of the runtime sends to another. If its receiver has ended, it does not become a dead
/// letter.
pub(crate) struct Internal(pub(crate) Payload);

/// Receives dead letters, on any thread: the hook and the counters of a host.
pub(crate) trait Sink: Send + Sync {
    fn dead_letter(&'static self, letter: DeadLetter);
}

thread_local! {
    static SINK: Cell<Option<&'static dyn Sink>> = const { Cell::new(None) };
}

/// Sets the sink of the calling thread. Returns its previous one.
pub(crate) fn set_sink(sink: Option<&'static dyn Sink>) -> Option<&'static dyn Sink> {
    SINK.replace(sink)
}

pub(crate) fn while_sinking_into(sink: &'static dyn Sink, body: impl FnOnce()) {
    let outer = set_sink(Some(sink));
    let _restore = defer(|| _ = set_sink(outer));
    body();
}

/// Reports a dead letter to this thread's sink. Without a sink, the dead letter is dropped.
pub(crate) fn bring(letter: DeadLetter) {
    if let Some(sink) = SINK.try_with(Cell::get).ok().flatten() {
        sink.dead_letter(letter);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{AtomicUsize, Ordering};

    struct Counts(AtomicUsize);

    impl Sink for Counts {
        fn dead_letter(&'static self, _: DeadLetter) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Catches: a sink that stays after a thread has acted for another host.
    #[test]
    fn a_thread_that_has_sunk_into_a_host_does_so_no_more() {
        static SINKS: [Counts; 2] = [const { Counts(AtomicUsize::new(0)) }; 2];
        let to = Pid::new(crate::NodeId::new(7).expect("a node ID"), 0, 0, 1);
        let letter = || bring(DeadLetter::new(to, Payload::new(()), DeadLetterReason::Ended, None));
        letter();
        while_sinking_into(&SINKS[0], || {
            while_sinking_into(&SINKS[1], letter);
            (0..2).for_each(|_| letter());
        });
        (0..4).for_each(|_| letter());
        assert_eq!(SINKS.each_ref().map(|sink| sink.0.load(Ordering::Relaxed)), [2, 1]);
    }
}
