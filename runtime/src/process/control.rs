//! Requests from the runtime to a process, sent through its control lane.

use super::description::DescriptionRequest;
use super::handover::Upgrade;
use super::tap::TapSink;
use crate::links::message::{Bindings, SentLinkMessage};
use crate::{exit::ExitReason, mailbox::payload::Payload, util::oneshot::Oneshot};
use std::sync::Arc;

/// A message in the control lane other than a completion.
pub(crate) enum Control {
    /// Ends the process. If it handles cancels, it may clean up first.
    Cancel(ExitReason),
    /// Ends the process before its next message.
    Kill,
    /// Notifies this waiter when the process has ended.
    Join(Join),
    Link(Box<SentLinkMessage>),
    Inspect(Inspect),
    Describe(DescriptionRequest),
    Tap(Box<TapSink>),
    Upgrade(Upgrade),
}

impl Control {
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, Self::Cancel(_) | Self::Kill)
    }
}

/// A request for a process's links and monitors. Dropping it unanswered means that it reached no live process.
pub(crate) struct Inspect(Arc<Oneshot<Option<Bindings>>>);

impl Inspect {
    pub(crate) fn new(waiter: Arc<Oneshot<Option<Bindings>>>) -> Self {
        Self(waiter)
    }

    pub(crate) fn answer(self, bindings: Bindings) {
        self.0.put(Some(bindings));
    }
}

impl Drop for Inspect {
    fn drop(&mut self) {
        // Has no effect if the request was answered.
        self.0.put(None);
    }
}

pub(crate) trait EndWaiter: Send + Sync {
    /// Called when the process has ended and its state has been dropped. Only the waiter that was created with the
    /// process gets the entry's `result`.
    fn ended(&self, reason: &ExitReason, result: Option<Payload>);

    /// Like `ended`, but for the waiter that was created with the process. `handling` is the type of the message in
    /// which the process failed.
    fn ended_while(&self, reason: &ExitReason, result: Option<Payload>, handling: Option<&'static str>) {
        let _ = handling;
        self.ended(reason, result);
    }

    /// Returns whether the end is still awaited.
    fn is_awaited(&self) -> bool {
        true
    }
}

/// A request to be notified of the end of a process. Dropping it tells the waiter that it reached no live process.
pub(crate) struct Join(Option<Arc<dyn EndWaiter>>);

impl Join {
    pub(crate) fn new(waiter: Arc<dyn EndWaiter>) -> Self {
        Self(Some(waiter))
    }

    /// Notifies the waiter that the process has ended and its state has been dropped.
    pub(crate) fn notify(mut self, reason: &ExitReason) {
        if let Some(waiter) = self.0.take() {
            waiter.ended(reason, None);
        }
    }

    /// Returns whether the end is still awaited.
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.as_ref().is_some_and(|waiter| waiter.is_awaited())
    }
}

/// Adds a request. A caller that waits with a timeout in a loop abandons one request per iteration; abandoned requests
/// are removed whenever the list would grow.
pub(crate) fn keep_join(joins: &mut Vec<Join>, join: Join) {
    if joins.len() == joins.capacity() {
        joins.retain(Join::is_awaited);
    }
    joins.push(join);
}

impl Drop for Join {
    fn drop(&mut self) {
        if let Some(waiter) = self.0.take() {
            waiter.ended(&ExitReason::NoProcess, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EndWaiter, Join, keep_join};
    use crate::exit::ExitReason;
    use crate::mailbox::payload::Payload;
    use std::sync::Arc;

    /// A waiter; the flag tells whether its caller still waits.
    struct Waits(bool);

    impl EndWaiter for Waits {
        fn ended(&self, _: &ExitReason, _: Option<Payload>) {}

        fn is_awaited(&self) -> bool {
            self.0
        }
    }

    /// Catches: a list that grows with each abandoned wait, and a pending wait that is removed.
    #[test]
    fn the_list_of_those_who_wait_does_not_grow_by_those_who_have_given_up() {
        let mut joins = Vec::new();
        for round in 0..10_000 {
            keep_join(&mut joins, Join::new(Arc::new(Waits(round % 1_000 == 0))));
        }
        assert!(joins.capacity() <= 64, "{}", joins.capacity());
        assert_eq!(joins.iter().filter(|join| join.is_awaited()).count(), 10);
    }
}
