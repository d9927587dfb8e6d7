//! Mailboxes with a hard bound: their messages lie in a ring under a lock, and what travels in the lane are
//! [tickets](crate::engine::backpressure::placeholders), each good for the oldest message that is there then.
//!
//! A lane of its own could not do it: to drop the oldest, or to refuse exactly, a sender would have to look into a
//! queue that only its receiver may take from.

use crate::mailbox::bound::{Bound, Overflow};
use crate::mailbox::node::Envelope;
use std::collections::VecDeque;

/// The messages of one mailbox.
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

    pub(crate) fn into_letters(self) -> Vec<Envelope> {
        self.envelopes.into()
    }
}
