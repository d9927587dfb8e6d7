//! What becomes of something sent: what is decided about it, what is left to do, and why it goes back.

use crate::mailbox::lanes::Claim;
use crate::mailbox::node::{Envelope, MailNode, NodeBox};
use crate::mailbox::node_pool;
use std::ptr::NonNull;

/// Why something sent was refused; the envelope is whole. In a box, so that the result of what is not refused is one
/// word.
#[derive(Debug)]
pub(crate) struct SendRefusal(pub(crate) Envelope, pub(crate) RefusalReason);

/// Why something sent was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    Gone,
    Full,
}

/// A node that was put into a data lane, and what is still to be done about it.
#[must_use = "the process may be idle, and its token here"]
pub(crate) struct Pushed {
    pub(crate) mine: NonNull<MailNode>,
    pub(crate) claim: Claim,
    pub(crate) check_length: bool,
}

/// What becomes of a message for a mailbox that may be too full.
pub(crate) enum Admission {
    /// It is to be queued.
    Accepted(NodeBox),
    /// It goes back.
    Refused(Envelope, RefusalReason),
    /// It is in the lane.
    Pushed(Pushed),
    /// It has been seen to.
    Taken,
}

impl Admission {
    /// Returns the message back, since the mailbox is full.
    pub(crate) fn refuse(mut node: NodeBox) -> Self {
        let envelope = node.take();
        Self::give_back(node, envelope, RefusalReason::Full)
    }

    /// Returns a message back that has been taken out of that node.
    pub(crate) fn give_back(node: NodeBox, envelope: Envelope, why: RefusalReason) -> Self {
        node_pool::recycle(node);
        Self::Refused(envelope, why)
    }
}
