//! How messages enter and leave a [queue](crate::engine::backpressure::bounded_queue).

use super::congestion::{Manner, Sender, sender};
use super::state::SIDES;
use super::{suspend, waiters};
use crate::call::caller::Caller;
use crate::call::dead_letter::{DeadLetter, DeadLetterReason};
use crate::errors::CallError;
use crate::mailbox::bound::Overflow;
use crate::mailbox::node::{Envelope, NodeBox, NodeKind};
use crate::mailbox::node_pool;
use crate::slots::{Admission, RefusalReason, Slot};
use std::ptr;

/// Puts a message into the queue, and turns its node into the ticket.
pub(crate) fn admit(slot: &'static Slot, mut node: NodeBox, manner: Manner) -> Admission {
    let Some(side) = SIDES.get(slot.index()) else { return Admission::Accepted(node) };
    let envelope = node.take();
    let generation = envelope.generation;
    let mut envelope = Some(envelope);
    loop {
        let mut state = side.lock();
        // An exiting process takes its envelopes out under this lock, after its incarnation is closed: that makes no
        // room.
        let ours = state.generation == generation && slot.is_living(generation);
        let Some(queue) = state.queue.as_mut().filter(|_| ours) else {
            drop(state);
            // Its process has ended, perhaps while its sender waited here for room.
            let envelope = envelope.unwrap_or_else(|| unreachable!("taken out below, before a return"));
            return Admission::give_back(node, envelope, RefusalReason::Gone);
        };
        if !queue.is_full() {
            queue.envelopes.extend(envelope);
            node.put(Envelope { kind: NodeKind::Placeholder, generation, word: ptr::null_mut(), payload: None });
            // Under the lock: the envelopes are in the order of their tickets, so that the next item of the same sender
            // in the lane, a request to stop or its notice of an end, follows this envelope and not another's.
            let pushed = slot.push(node);
            drop(state);
            return Admission::Pushed(pushed);
        }
        if slot.is_suspended() {
            // A waiting process may wait for it.
            drop(state);
            suspend::end_suspension(slot, suspend::ResumeReason::Overfull);
            continue;
        }
        let overflow = match queue.overflow {
            Overflow::Wait if manner == Manner::Try => Overflow::Refuse,
            overflow => overflow,
        };
        let dropped = match overflow {
            Overflow::DropOldest => {
                let oldest = queue.envelopes.pop_front();
                queue.envelopes.extend(envelope.take());
                oldest
            }
            Overflow::DropNewest => envelope.take(),
            Overflow::Refuse | Overflow::Wait => None,
        };
        drop(state);
        if let Some(dropped) = dropped {
            node_pool::recycle(node);
            drop_message(slot, dropped);
            return Admission::Taken;
        }
        if overflow == Overflow::Wait && manner == Manner::Send && waits_for_room(slot, generation) {
            continue;
        }
        node.put(envelope.unwrap_or_else(|| unreachable!("taken out above, before a return")));
        return Admission::refuse(node);
    }
}

/// Waits on the calling thread until there may be room. Returns false if that could last for ever.
fn waits_for_room(slot: &'static Slot, generation: u64) -> bool {
    match sender() {
        Sender::Process(own) => !ptr::eq(own, slot) && suspend::wait_in_step(own, slot, generation),
        Sender::Outside => {
            waiters::wait(slot, generation);
            true
        }
        Sender::Ending | Sender::Between => false,
    }
}

/// Takes the message of a ticket.
pub(crate) fn redeem(slot: &'static Slot, generation: u64) -> Option<Envelope> {
    let mut state = SIDES.get(slot.index())?.lock();
    if state.generation != generation {
        return None;
    }
    let envelope = state.queue.as_mut()?.envelopes.pop_front();
    drop(state);
    if slot.is_congested() {
        suspend::resume_waiters(slot, false);
    }
    envelope
}

/// Disposes of a message without room.
fn drop_message(slot: &'static Slot, envelope: Envelope) {
    let Some(home) = slot.home() else { return };
    // SAFETY: the word of a message is its caller, or null, and this envelope is its only holder.
    let caller = unsafe { Caller::from_word(envelope.word) };
    if let Some(message) = envelope.payload {
        let to = home.pid(slot.index(), envelope.generation);
        home.scheduler.dead_letter(DeadLetter { to, message, reason: DeadLetterReason::Overflow });
    }
    if let Some(caller) = caller {
        caller.fail(CallError::Full);
    }
}
