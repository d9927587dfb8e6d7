//! Mailboxes with a hard bound: their messages are in a queue under a lock, and the lane holds
//! [tickets](crate::engine::backpressure::placeholders), each for the message that is then the oldest.
//!
//! A lane alone could not do this: to drop the oldest, or to refuse exactly, a sender would have to look into a queue
//! that only its receiver may take from.

use crate::mailbox::bound::{Bound, Overflow};
use crate::mailbox::node::Envelope;
use std::collections::VecDeque;

/// The messages of a mailbox.
pub(crate) struct BoundedQueue {
    most: usize,
    pub(crate) overflow: Overflow,
    pub(crate) envelopes: VecDeque<Envelope>,
}

impl BoundedQueue {
    pub(crate) fn of(bound: Bound) -> Option<Self> {
        match bound {
            Bound::Hard(most, overflow) => Some(Self { most, overflow, envelopes: VecDeque::new() }),
            Bound::Soft(_) | Bound::Unbounded => None,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.envelopes.len() >= self.most
    }

    pub(crate) fn into_envelopes(self) -> Vec<Envelope> {
        self.envelopes.into()
    }
}
