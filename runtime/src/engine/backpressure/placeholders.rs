//! How messages come into a [ring](crate::engine::backpressure::bounded_queue), and out of it.

use super::congestion::{Manner, Sender, sender};
use super::state::SIDES;
use super::{suspend, waiters};
use crate::call::caller::Caller;
use crate::call::dead_letter::{DeadLetter, DeadLetterReason};
use crate::errors::CallError;
use crate::mailbox::bound::Overflow;
use crate::mailbox::node::{Envelope, NodeBox, NodeKind};
use crate::mailbox::node_pool;
use crate::pid::Pid;
use crate::slots::{Admission, RefusalReason, Slot};
use std::ptr;

/// Puts a message into the ring, and makes its node the ticket.
pub(crate) fn admit(slot: &'static Slot, mut node: NodeBox, manner: Manner) -> Admission {
    let Some(side) = SIDES.get(slot.index()) else { return Admission::Accepted(node) };
    let letter = node.take();
    let generation = letter.generation;
    let mut letter = Some(letter);
    loop {
        let mut state = side.lock();
        // An ending process takes its letters out under this lock, after its life is closed: that makes room for nothing.
        let ours = state.generation == generation && slot.is_living(generation);
        let Some(ring) = state.ring.as_mut().filter(|_| ours) else {
            drop(state);
            // Its process is over, perhaps while its sender has waited here for room.
            let letter = letter.unwrap_or_else(|| unreachable!("taken out below, before a return"));
            return Admission::give_back(node, letter, RefusalReason::Gone);
        };
        if !ring.is_full() {
            ring.letters.extend(letter);
            node.put(Envelope { kind: NodeKind::Ticket, generation, word: ptr::null_mut(), payload: None });
            // Under the lock: the letters are in the order of their tickets, so that what the same sender puts into the lane
            // next, a request to stop or its notice of an end, comes after this letter and not after another's.
            let pushed = slot.push(node);
            drop(state);
            return Admission::Pushed(pushed);
        }
        if slot.is_held() {
            // What it waits for may wait for it.
            drop(state);
            suspend::lift(slot, suspend::ResumeReason::Overfull);
            continue;
        }
        let overflow = match ring.overflow {
            Overflow::Wait if manner == Manner::Try => Overflow::Refuse,
            overflow => overflow,
        };
        let dropped = match overflow {
            Overflow::DropOldest => {
                let oldest = ring.letters.pop_front();
                ring.letters.extend(letter.take());
                oldest
            }
            Overflow::DropNewest => letter.take(),
            Overflow::Refuse | Overflow::Wait => None,
        };
        drop(state);
        if let Some(dropped) = dropped {
            node_pool::recycle(node);
            drop_letter(slot, dropped);
            return Admission::Taken;
        }
        if overflow == Overflow::Wait && manner == Manner::Send && waits_for_room(slot, generation) {
            continue;
        }
        node.put(letter.unwrap_or_else(|| unreachable!("taken out above, before a return")));
        return Admission::refuse(node);
    }
}

/// Waits on the calling thread until there may be room. Not if that could last for ever.
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

/// The message that a ticket is good for.
pub(crate) fn redeem(slot: &'static Slot, generation: u64) -> Option<Envelope> {
    let mut state = SIDES.get(slot.index())?.lock();
    if state.generation != generation {
        return None;
    }
    let letter = state.ring.as_mut()?.letters.pop_front();
    drop(state);
    if slot.is_overfull() {
        suspend::relieve(slot, false);
    }
    letter
}

/// Disposes of a message that there was no room for.
fn drop_letter(slot: &'static Slot, letter: Envelope) {
    let Some(home) = slot.home() else { return };
    // SAFETY: the word of a message is its caller, or null, and this letter is its only holder.
    let caller = unsafe { Caller::from_word(letter.word) };
    if let Some(message) = letter.payload {
        let to = Pid::new(home.node, home.host, slot.index(), letter.generation);
        home.keeper.dead_letter(DeadLetter { to, message, reason: DeadLetterReason::Overflow });
    }
    if let Some(caller) = caller {
        caller.fail(CallError::Full);
    }
}
