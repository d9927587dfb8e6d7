//! Messages to a process that the calling thread keeps: they are stored in the first node of its empty lane, without an
//! atomic exchange. All other messages are sent by the [slot](crate::slots::slot::send).

use super::current;
use super::tokens::{LocalTokens, Refill};
use crate::call::caller::Caller;
use crate::mailbox::node::MailNode;
use crate::mailbox::node_pool;
use crate::mailbox::payload::is_in_place;
use crate::observe::spans;
use crate::pid::Pid;
use crate::slots::slot::admission::RefusalReason;
use crate::slots::{Slot, Token};
use std::ptr::{self, NonNull};

/// Sends a message to the process `to` in `slot`.
///
/// # Errors
/// The message, if that process is not in the slot or its mailbox is full.
#[inline]
pub(crate) fn send<M: Send + 'static>(slot: &'static Slot, to: Pid, message: M) -> Result<(), (M, RefusalReason)> {
    match EmptyNode::of::<M>(slot, to) {
        Some(node) => {
            node.fill(to.generation(), message, ptr::null_mut());
            Ok(())
        }
        None => slot.send(to, message),
    }
}

/// Sends a message with a caller to the process `to` in `slot`.
///
/// # Errors
/// The message and its caller, if that process is not in the slot or its mailbox is full.
#[inline(always)]
pub(crate) fn call<M: Send + 'static>(
    slot: &'static Slot,
    to: Pid,
    message: M,
    caller: Caller,
) -> Result<(), (M, Option<Caller>, RefusalReason)> {
    match EmptyNode::of::<M>(slot, to) {
        Some(node) => {
            node.fill(to.generation(), message, caller.into_word());
            Ok(())
        }
        None => slot.call(to, message, caller),
    }
}

/// The empty first node in the lane of a process that the calling thread keeps. It will hold a message.
enum EmptyNode {
    /// Filled within a section of the lock, in which no user code may run.
    Small(Refill<'static>),
    /// Filled outside a section: the message needs a block, which may come from the user's allocator.
    Large { token: Token, first: NonNull<MailNode>, local: &'static LocalTokens },
}

impl EmptyNode {
    /// Returns the node for a message of type `M` to `to`, if that process is idle and the calling thread keeps it.
    #[inline(always)]
    fn of<M>(slot: &'static Slot, to: Pid) -> Option<Self> {
        if !slot.permit.is_kept_idle() || !slot.carries_unrecorded(to) {
            return None;
        }
        // A subscriber is asked about each message. It is user code, so no lock or token may be held while it runs.
        if spans::may_be_wanted() {
            return None;
        }
        let local = current()?;
        if is_in_place::<M>() {
            if let Some(refill) = local.begin_refill(slot) {
                return Some(Self::Small(refill));
            }
            if let Some(token) = local.take(slot) {
                // Other threads have sent something first, and the mailbox may refuse more.
                token.wake();
            }
            return None;
        }
        let mut token = local.take(slot)?.acquire();
        if let Some(first) = token.lanes().empty_first() {
            return Some(Self::Large { token, first, local });
        }
        // Other threads have sent something first.
        token.release().wake();
        None
    }

    /// Stores the message with `word`, which is its caller or null, and makes the process run.
    #[inline(always)]
    fn fill<M: Send + 'static>(self, generation: u64, message: M, word: *mut MailNode) {
        let not_next = match self {
            Self::Small(refill) => {
                // SAFETY: this thread holds the token, and so owns the content of the lane's empty first node.
                unsafe { node_pool::message_in(refill.first(), generation, message, word) };
                refill.finish()
            }
            Self::Large { mut token, first, local } => {
                // SAFETY: as above.
                unsafe { node_pool::message_in(first, generation, message, word) };
                token.lanes().refill(first);
                local.put_only_next(token.release()).err()
            }
        };
        if let Some(token) = not_next {
            token.wake();
        }
    }
}
