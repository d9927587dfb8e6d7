//! The functions that sends, spawns and exits call.

use super::bounded_queue::BoundedQueue;
use super::state::is_over;
use super::state::{MailboxState, SIDES, side_of};
use super::{congestion, placeholders, suspend};
use crate::engine::host::Scheduler;
use crate::mailbox::bound::Bound;
use crate::mailbox::node::{Envelope, NodeBox};
use crate::slots::{Admission, Slot};

/// Decides about a message for a mailbox that is congested or has a hard bound.
pub(crate) fn admit(slot: &'static Slot, node: NodeBox) -> Admission {
    if slot.is_hard_bounded() {
        placeholders::admit(slot, node, congestion::manner())
    } else {
        congestion::admit(slot, node)
    }
}

/// Sets the bound of a mailbox whose process has not started.
pub(crate) fn limit(slot: &'static Slot, generation: u64, bound: Bound) {
    let mut side = side_of(slot).lock();
    *side = MailboxState { generation, bound: Some(bound), queue: BoundedQueue::of(bound), ..MailboxState::default() };
    slot.note_own_bound(matches!(bound, Bound::Hard(..)));
}

/// Called with every 128th message of a queue.
pub(crate) fn check_length(slot: &'static Slot) {
    // A queue is checked with each message.
    if !slot.is_hard_bounded() && is_over(slot) {
        side_of(slot).lock().note_known(slot.lanes.last_sequence());
        slot.note_congested(true);
        if slot.is_suspended() {
            // A suspended process whose own mailbox is too full must run.
            suspend::end_suspension(slot, suspend::ResumeReason::Overfull);
        }
        congestion::note(slot);
    }
}

/// Returns the number of a recent message in a congested mailbox; zero if it is unknown.
pub(crate) fn known(slot: &'static Slot) -> u64 {
    if slot.is_hard_bounded() { 0 } else { SIDES.get(slot.index()).map_or(0, |side| side.lock().known) }
}

/// Called when the process has ended: resumes all that are suspended at it, and ends its own suspension. Returns the
/// contents of its queue, which become dead letters.
pub(crate) fn ended(slot: &'static Slot) -> Vec<Envelope> {
    let Some(side) = SIDES.get(slot.index()) else { return Vec::new() };
    if slot.is_suspended() {
        suspend::end_suspension(slot, suspend::ResumeReason::Ended);
    }
    let state = std::mem::take(&mut *side.lock());
    state.waiting.into_iter().for_each(|waiting| _ = suspend::resume(waiting));
    state.queue.map(BoundedQueue::into_envelopes).unwrap_or_default()
}

impl Scheduler {
    /// Returns how many processes are suspended.
    pub(crate) fn suspended(&self) -> usize {
        self.suspensions.get().saturating_sub(self.resumptions.get()) as usize
    }
}
