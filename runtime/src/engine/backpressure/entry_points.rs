//! What senders, births and ends call: they come in here.

use super::bounded_queue::BoundedQueue;
use super::measure::is_over;
use super::state::{MailboxState, SIDES, side_of};
use super::{congestion, placeholders, suspend};
use crate::engine::host::Scheduler;
use crate::mailbox::bound::Bound;
use crate::mailbox::node::{Envelope, NodeBox};
use crate::slots::{Admission, Slot};

/// Decides about a message for a mailbox that is marked as too full, or whose bound is a hard one.
pub(crate) fn admit(slot: &'static Slot, node: NodeBox) -> Admission {
    if slot.has_ring() { placeholders::admit(slot, node, congestion::manner()) } else { congestion::admit(slot, node) }
}

/// Gives the mailbox of a process that has not begun a bound of its own.
pub(crate) fn limit(slot: &'static Slot, generation: u64, bound: Bound) {
    let mut side = side_of(slot).lock();
    *side = MailboxState { generation, bound: Some(bound), ring: BoundedQueue::of(bound), ..MailboxState::default() };
    slot.note_limit(matches!(bound, Bound::Hard(..)));
}

/// Every 128th message of a queue has come.
pub(crate) fn crowded(slot: &'static Slot) {
    // A ring is looked at with each message.
    if !slot.has_ring() && is_over(slot) {
        side_of(slot).lock().note_known(slot.lanes.last_sequence());
        slot.note_overfull(true);
        if slot.is_held() {
            // Whoever holds it cannot wait for it any more.
            suspend::lift(slot, suspend::ResumeReason::Overfull);
        }
        congestion::note(slot);
    }
}

/// The number of a message that came while the mailbox was too full; zero if none is known.
pub(crate) fn known(slot: &'static Slot) -> u64 {
    if slot.has_ring() { 0 } else { SIDES.get(slot.index()).map_or(0, |side| side.lock().known) }
}

/// The process is over: nobody is held at it, and it is held nowhere. What its ring still had is given back, to be dead
/// letters.
pub(crate) fn ended(slot: &'static Slot) -> Vec<Envelope> {
    let Some(side) = SIDES.get(slot.index()) else { return Vec::new() };
    if slot.is_held() {
        suspend::lift(slot, suspend::ResumeReason::Ended);
    }
    let state = std::mem::take(&mut *side.lock());
    state.waiting.into_iter().for_each(|waiting| _ = suspend::let_go(waiting));
    state.ring.map(BoundedQueue::into_letters).unwrap_or_default()
}

impl Scheduler {
    /// Counts how many processes are held now.
    pub(crate) fn held(&self) -> usize {
        self.holds.get().saturating_sub(self.let_go.get()) as usize
    }
}
