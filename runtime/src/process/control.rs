//! What the runtime itself says to a process, through its control lane.

use super::handover::Upgrade;
use crate::exit::ExitReason;
use crate::links::message::{Bindings, SentLinkMessage};
use crate::mailbox::payload::Payload;
use crate::util::oneshot::Oneshot;
use std::sync::Arc;

/// A control that is no completion.
pub(crate) enum Control {
    /// End, and clean up first if you know how.
    Cancel(ExitReason),
    /// End before the next message.
    Kill,
    /// Tell this one when you end.
    Join(Join),
    /// Something about what binds this process to another.
    Bond(Box<SentLinkMessage>),
    /// Tell this one what binds you.
    Inspect(Inspect),
    /// Hand your state to another definition.
    Upgrade(Upgrade),
}

impl Control {
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, Self::Cancel(_) | Self::Kill)
    }
}

/// A wish to know what binds a process to others. One that is dropped reached no living process.
pub(crate) struct Inspect(Arc<Oneshot<Option<Bindings>>>);

impl Inspect {
    pub(crate) fn new(waiter: Arc<Oneshot<Option<Bindings>>>) -> Self {
        Self(waiter)
    }

    pub(crate) fn tell(self, bindings: Bindings) {
        self.0.put(Some(bindings));
    }
}

impl Drop for Inspect {
    fn drop(&mut self) {
        // Nothing, if it has been told.
        self.0.put(None);
    }
}

/// Someone who waits for the end of a process.
pub(crate) trait EndWaiter: Send + Sync {
    /// The process has ended and its state has been dropped. `result` is what its entry returned; it goes to the one
    /// waiter that was made with the process.
    fn ended(&self, reason: &ExitReason, result: Option<Payload>);
}

/// A wish to be told of the end. One that is dropped was never heard by a living process: its waiter is told that.
pub(crate) struct Join(Option<Arc<dyn EndWaiter>>);

impl Join {
    pub(crate) fn new(waiter: Arc<dyn EndWaiter>) -> Self {
        Self(Some(waiter))
    }

    /// The process has ended, and its state has been dropped.
    pub(crate) fn tell(mut self, reason: &ExitReason) {
        if let Some(waiter) = self.0.take() {
            waiter.ended(reason, None);
        }
    }
}

impl Drop for Join {
    fn drop(&mut self) {
        if let Some(waiter) = self.0.take() {
            waiter.ended(&ExitReason::Gone, None);
        }
    }
}
