//! How many wakers of a process others have: while there is one, something else than what the runtime knows of may make the
//! process go on.
//!
//! Counted for each slot, in a [side table](super::side), so that a waker still owns nothing and may outlive its process. One
//! that is never dropped keeps the processes of its slot from ever being found in a cycle, and does no other harm.
//!
//! A waker that is woken is counted out after the wake is marked in the control lane, so that whoever finds none lent finds the
//! wake, and before the process runs for it, so that it finds none lent. One that is dropped without a wake while its process
//! waits leaves that wait as it was: unseen.

use super::side::Side;
use crate::pid::GENERATION_BITS;
use crate::sync::{AtomicU32, Ordering};
use crate::wait_graph::Life;

static LENT: Side<AtomicU32> = Side::new(|| AtomicU32::new(0));

/// A waker of a process of that slot comes into the hands of others.
pub(crate) fn lend(index: u32) {
    if let Some(lent) = LENT.make(index) {
        lent.fetch_add(1, Ordering::Relaxed);
    }
}

/// It is gone. Gives whether it was the last one.
pub(crate) fn give_back(index: u32) -> bool {
    LENT.get(index).is_some_and(|lent| lent.fetch_sub(1, Ordering::Release) == 1)
}

/// Whether others have wakers of that process, whose code runs on the calling thread, so that no first one is lent
/// meanwhile.
#[inline]
pub(crate) fn is_lent(life: Life) -> bool {
    LENT.get((life >> GENERATION_BITS) as u32).is_some_and(|lent| lent.load(Ordering::Acquire) != 0)
}
