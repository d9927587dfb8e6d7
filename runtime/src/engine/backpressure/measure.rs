//! How full a mailbox may be, and whether it is.

use super::bounded_queue::BoundedQueue;
use super::state::SIDES;
use crate::mailbox::bound::Bound;
use crate::slots::Slot;

/// The bound of a mailbox; `None` without one.
pub(crate) fn bound_of(slot: &'static Slot) -> Option<u64> {
    let bound = match SIDES.get(slot.index()).filter(|_| slot.is_limited()) {
        Some(side) => side.lock().bound.unwrap_or_default(),
        None => slot.home()?.keeper.bound(),
    };
    match bound {
        Bound::Soft(most) | Bound::Hard(most, _) => Some(most as u64),
        Bound::Unbounded => None,
    }
}

/// Returns whether a mailbox is over its bound, or has no room under a hard one.
pub(crate) fn is_over(slot: &'static Slot) -> bool {
    if slot.has_ring() {
        return SIDES
            .get(slot.index())
            .is_some_and(|side| side.lock().ring.as_ref().is_some_and(BoundedQueue::is_full));
    }
    bound_of(slot).is_some_and(|bound| slot.lanes.depth() > bound)
}
