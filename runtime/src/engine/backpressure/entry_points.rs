//! What senders, births and ends call: they come in here.

use super::bounded_queue::BoundedQueue;
use super::state::is_over;
use super::state::{MailboxState, SIDES, side_of};
use super::{congestion, placeholders, suspend};
use crate::engine::host::Scheduler;
use crate::mailbox::bound::Bound;
use crate::mailbox::node::{Envelope, NodeBox};
use crate::slots::{Admission, Slot};

/// Decides about a message for a mailbox that is marked as too full, or whose bound is a hard one.
pub(crate) fn admit(slot: &'static Slot, node: NodeBox) -> Admission {
    if slot.is_hard_bounded() {
        placeholders::admit(slot, node, congestion::manner())
    } else {
        congestion::admit(slot, node)
    }
}

/// Gives the mailbox of a process that has not begun a bound of its own.
pub(crate) fn limit(slot: &'static Slot, generation: u64, bound: Bound) {
    let mut side = side_of(slot).lock();
    *side = MailboxState { generation, bound: Some(bound), ring: BoundedQueue::of(bound), ..MailboxState::default() };
    slot.note_own_bound(matches!(bound, Bound::Hard(..)));
}

/// Every 128th message of a queue has come.
pub(crate) fn check_length(slot: &'static Slot) {
    // A ring is looked at with each message.
    if !slot.is_hard_bounded() && is_over(slot) {
        side_of(slot).lock().note_known(slot.lanes.last_sequence());
        slot.note_congested(true);
        if slot.is_suspended() {
            // The one that suspends it cannot wait for it any more.
            suspend::end_suspension(slot, suspend::ResumeReason::Overfull);
        }
        congestion::note(slot);
    }
}

/// The number of a message that came while the mailbox was too full; zero if none is known.
pub(crate) fn known(slot: &'static Slot) -> u64 {
    if slot.is_hard_bounded() { 0 } else { SIDES.get(slot.index()).map_or(0, |side| side.lock().known) }
}

/// The process is over: all that are suspended at it are resumed, and it is suspended nowhere. What its ring still had
/// is given back, to be dead letters.
pub(crate) fn ended(slot: &'static Slot) -> Vec<Envelope> {
    let Some(side) = SIDES.get(slot.index()) else { return Vec::new() };
    if slot.is_suspended() {
        suspend::end_suspension(slot, suspend::ResumeReason::Ended);
    }
    let state = std::mem::take(&mut *side.lock());
    state.waiting.into_iter().for_each(|waiting| _ = suspend::resume(waiting));
    state.ring.map(BoundedQueue::into_letters).unwrap_or_default()
}

impl Scheduler {
    /// Counts how many processes are suspended now.
    pub(crate) fn held(&self) -> usize {
        self.suspensions.get().saturating_sub(self.resumptions.get()) as usize
    }
}
