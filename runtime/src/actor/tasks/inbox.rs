//! Input that a process has received outside its mailbox, or has taken out of it, but has not handled yet.

use super::attachment::{Attachment, StashedMessage};
use crate::Signal;
use crate::mailbox::node_pool;
use crate::sync::Arc;
use std::collections::VecDeque;
use std::task::Waker;

#[derive(Default)]
pub(crate) struct ProcessInbox {
    /// Messages to be handled before those in the mailbox: messages that were taken out of the mailbox, items of
    /// attached streams, and results that arrived after an upgrade.
    pub(crate) messages: VecDeque<StashedMessage>,
    /// Signals that have arrived and have not been handled.
    pub(crate) signals: VecDeque<Signal>,
    /// Messages that a selective receive has passed over.
    pub(crate) stash: VecDeque<StashedMessage>,
    /// The stream whose item is being handled.
    pub(crate) handling: Option<Arc<Attachment>>,
    /// Whether a future waits for the next message.
    pub(crate) wants_message: bool,
    /// The waker of that future, unless it is the process's own.
    pub(crate) waker: Option<Waker>,
    /// Whether the mailbox was empty when it was last checked.
    pub(crate) seen_empty: bool,
    /// Whether an async entry awaits an async method that is handling a message.
    pub(crate) in_method: bool,
}

impl ProcessInbox {
    /// Returns whether it holds messages.
    #[inline]
    pub(crate) fn has_messages(&self) -> bool {
        !(self.messages.is_empty() && self.stash.is_empty())
    }

    /// Takes the next message outside of the mailbox. Also returns the stream, if any, whose previous item has now been
    /// handled.
    pub(crate) fn next_stashed(&mut self) -> (Option<StashedMessage>, Option<Arc<Attachment>>) {
        let handled = self.handling.take();
        // Stashed messages and stream items are charged to the budget here; messages from the mailbox were charged
        // when taken.
        let aside = self.stash.pop_front().inspect(|_| node_pool::spend(1));
        let next = aside.or_else(|| {
            let stashed = self.messages.pop_front();
            stashed.inspect(|stashed| node_pool::spend(u32::from(stashed.from.is_some())))
        });
        (next, handled)
    }
}
