//! The outcome of a send: what was decided, what is left to do, and why it was refused.

use crate::mailbox::lanes::{Claim, LENGTH_CHECK};
use crate::mailbox::node::{Envelope, MailNode, NodeBox};
use crate::mailbox::node_pool;
use std::ptr::NonNull;

/// Whether the bound of the mailbox applies to an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendPolicy {
    Bounded,
    /// The message was accepted before, or the envelope is not a message.
    Anyway,
}

/// A refused send with its intact envelope. It is boxed where it is returned, so that the result of a send is one word.
#[derive(Debug)]
pub(crate) struct SendRefusal(pub(crate) Envelope, pub(crate) RefusalReason);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    Gone,
    Full,
}

/// A node in a data lane, and the work that is left for its sender.
#[must_use = "the process may be idle, and its token here"]
pub(crate) struct Pushed {
    pub(crate) mine: NonNull<MailNode>,
    pub(crate) claim: Claim,
    /// The sequence number of the node in its queue.
    pub(crate) sequence: u64,
}

impl Pushed {
    /// Returns whether the sender must check the length of the mailbox.
    #[inline(always)]
    pub(crate) fn is_to_check(&self) -> bool {
        self.sequence.is_multiple_of(LENGTH_CHECK)
    }
}

/// The decision about a message for a mailbox that may be too full.
pub(crate) enum Admission {
    Accepted(NodeBox),
    Refused(Envelope, RefusalReason),
    Pushed(Pushed),
    /// The message has replaced another one, or was dropped; the sender has nothing left to do.
    Taken,
}

impl Admission {
    pub(crate) fn refuse(mut node: NodeBox) -> Self {
        let envelope = node.take();
        Self::give_back(node, envelope, RefusalReason::Full)
    }

    /// Refuses a message that was taken out of `node`.
    pub(crate) fn give_back(node: NodeBox, envelope: Envelope, why: RefusalReason) -> Self {
        node_pool::recycle(node);
        Self::Refused(envelope, why)
    }
}
