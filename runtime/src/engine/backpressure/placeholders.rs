//! Hard bounds: what the data lane would contain waits in a [second queue](super::state::BoundedQueue) under a lock,
//! and the lane contains one placeholder for each item of that queue.
//!
//! # Why a second queue
//!
//! The lane cannot enforce a hard bound. Its length is exact only for the receiver: senders that read it and then push
//! could together exceed the bound. To drop the oldest message, a sender would have to take from the end that belongs
//! to the token's holder. A count of admitted messages beside the lane would solve the first problem but not the
//! second, and would cost 13 ns for each message on two cores (`benches/NOTES.md`, *Tried and rejected*), also in
//! mailboxes with a soft bound. So only a mailbox with a hard bound pays for a lock.
//!
//! # Why placeholders
//!
//! The lane still decides which thread runs the process; the queue decides the order. A placeholder is pushed under the
//! lock of the queue, after its item. When it is taken, it represents the item that is then the oldest in the queue:
//! when a message is dropped, each item behind it moves up by one placeholder. So there are as many placeholders in the
//! lane as items in the queue.
//!
//! Stop requests, notices of ends and messages that were accepted before wait in the queue as well. If they were in the
//! lane itself, a message that was sent after one of them could move up past it.

use super::congestion::{SendMode, Sender, mode, sender};
use super::state::SIDES;
use super::{suspend, waiters};
use crate::call::dead_letter::DeadLetterReason;
use crate::errors::CallError;
use crate::mailbox::bound::Overflow;
use crate::mailbox::node::{Envelope, NodeBox, NodeKind};
use crate::mailbox::node_pool;
use crate::routing::router::package_of;
use crate::slots::{Admission, RefusalReason, SendPolicy, Slot};
use std::ptr;

/// Puts an item into the queue, and turns its node into the placeholder.
pub(crate) fn admit(slot: &'static Slot, mut node: NodeBox, policy: SendPolicy) -> Admission {
    let Some(side) = SIDES.get(slot.index()) else { return Admission::Accepted(node) };
    let envelope = node.take();
    let generation = envelope.generation;
    let mut envelope = Some(envelope);
    loop {
        let mut state = side.lock();
        // As a closed process exits, its envelopes are taken out under this lock; that makes no room for new ones.
        let ours = state.generation == generation && slot.is_living(generation);
        let Some(queue) = state.queue.as_mut().filter(|_| ours) else {
            drop(state);
            // The receiver has ended, perhaps while the sender waited here for room.
            let envelope = envelope.unwrap_or_else(|| unreachable!("taken out below, before a return"));
            return Admission::give_back(node, envelope, RefusalReason::Gone);
        };
        if policy == SendPolicy::Anyway || !queue.is_full() {
            envelope.into_iter().for_each(|envelope| queue.push(envelope));
            node.put(Envelope { kind: NodeKind::Placeholder, generation, word: ptr::null_mut(), payload: None });
            let pushed = slot.push(node, || 0);
            drop(state);
            return Admission::Pushed(pushed);
        }
        if slot.is_suspended() {
            // The suspended receiver must run: the sender may be what it waits for.
            drop(state);
            suspend::end_suspension(slot, suspend::ResumeReason::Overfull);
            continue;
        }
        let overflow = match queue.overflow {
            Overflow::Wait if mode() == SendMode::Try => Overflow::Refuse,
            overflow => overflow,
        };
        let dropped = match overflow {
            Overflow::DropOldest => {
                let oldest = queue.take_oldest_message();
                envelope.take().into_iter().for_each(|envelope| queue.push(envelope));
                oldest
            }
            Overflow::DropNewest => envelope.take(),
            Overflow::Refuse | Overflow::Wait => None,
        };
        // Read under the lock, while the receiver is alive: later the slot may belong to another host.
        let owner = slot.owner();
        drop(state);
        if let Some((dropped, owner)) = dropped.zip(owner) {
            node_pool::recycle(node);
            let to = owner.pid(slot.index(), dropped.generation);
            // SAFETY: the word of a message is its caller, or null, and this envelope is its only holder.
            unsafe { package_of(to, dropped) }.fail(owner.host, DeadLetterReason::Overflow, CallError::Full);
            return Admission::Taken;
        }
        if overflow == Overflow::Wait && mode() == SendMode::Normal && waits_for_room(slot, generation) {
            continue;
        }
        node.put(envelope.unwrap_or_else(|| unreachable!("taken out above, before a return")));
        return Admission::refuse(node);
    }
}

/// Blocks the calling thread until there may be room. Returns false if the wait could last forever.
fn waits_for_room(slot: &'static Slot, generation: u64) -> bool {
    match sender() {
        Sender::Process(own) => !ptr::eq(own, slot) && suspend::wait_in_step(own, slot, generation),
        Sender::Outside => {
            if let Some(request) = waiters::ask(slot, generation) {
                request.wait(None);
            }
            true
        }
        Sender::Ending | Sender::Between => false,
    }
}

/// Takes the item that a placeholder represents.
pub(crate) fn redeem(slot: &'static Slot, generation: u64) -> Option<Envelope> {
    let mut state = SIDES.get(slot.index())?.lock();
    if state.generation != generation {
        return None;
    }
    let envelope = state.queue.as_mut()?.pop();
    drop(state);
    if slot.is_congested() {
        suspend::resume_waiters(slot, false);
    }
    envelope
}
