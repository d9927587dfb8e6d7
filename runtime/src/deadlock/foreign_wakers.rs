//! The number of a process's wakers that other code holds: while there is one, events unknown to the runtime may resume
//! the process.
//!
//! Counted in a [side table](crate::slots::side_table) of the slots, so that a waker owns nothing and may outlive its
//! process. A word holds a generation and its count: the first waker of a later process in the slot starts again, so
//! that a waker that is never dropped hides only its own process from the search for cycles.
//!
//! A waker that is woken is counted out after the wake is marked in the control lane, so that a thread that counts none
//! finds the wake, and before the process runs for it, so that the process counts none. A waker that is dropped without
//! a wake while its process waits leaves that wait as it was: unpublished.

use super::edges::index_of;
use super::wait_graph::Incarnation;
use crate::env::world::World;
use crate::pid::{GENERATION_MASK, SLOT_BITS};
use crate::slots::side_table::SideTable;
use crate::sync::{AtomicU64, Ordering};

/// Generation, and below it the count of its wakers; at [`MOST`] the count is unknown, and stays so.
static LENT: World<SideTable<AtomicU64>> = World::new(SideTable::new(|| AtomicU64::new(0)));

const COUNT_BITS: u32 = SLOT_BITS;
const MOST: u64 = (1 << COUNT_BITS) - 1;

/// Counts a new waker of that process.
pub(crate) fn lend(incarnation: Incarnation) {
    if let Some(lent) = LENT.make(index_of(incarnation)) {
        let _of_a_later_life =
            lent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| lent_once_more(word, incarnation));
    }
}

/// Counts out a dropped waker; returns whether it was the last.
pub(crate) fn give_back(incarnation: Incarnation) -> bool {
    let lent = LENT.get(index_of(incarnation));
    let before = lent.and_then(|lent| {
        lent.fetch_update(Ordering::Release, Ordering::Relaxed, |word| lent_once_less(word, incarnation)).ok()
    });
    before.is_some_and(|before| before & MOST == 1)
}

/// Returns whether other code has wakers of that process, which the calling thread runs, so that no first one can be
/// added meanwhile.
#[inline]
pub(crate) fn is_lent(incarnation: Incarnation) -> bool {
    LENT.get(index_of(incarnation)).is_some_and(|lent| counts(lent.load(Ordering::Acquire), incarnation))
}

#[inline]
fn counts(word: u64, incarnation: Incarnation) -> bool {
    word >> COUNT_BITS == incarnation & GENERATION_MASK && word & MOST != 0
}

/// Returns the incremented word; `None` if it counts for a later process.
fn lent_once_more(word: u64, incarnation: Incarnation) -> Option<u64> {
    let (counted, generation) = (word >> COUNT_BITS, incarnation & GENERATION_MASK);
    match counted.cmp(&generation) {
        std::cmp::Ordering::Less => Some(generation << COUNT_BITS | 1),
        std::cmp::Ordering::Equal => Some(if word & MOST == MOST { word } else { word + 1 }),
        std::cmp::Ordering::Greater => None,
    }
}

/// Returns the decremented word; `None` if it counts none of that incarnation, or too many.
fn lent_once_less(word: u64, incarnation: Incarnation) -> Option<u64> {
    (counts(word, incarnation) && word & MOST != MOST).then(|| word - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pid::GENERATION_BITS;

    const SLOT: Incarnation = 7 << GENERATION_BITS;

    #[test]
    fn a_waker_that_is_never_dropped_counts_for_its_own_process_only() {
        let word = lent_once_more(0, SLOT | 1).and_then(|word| lent_once_more(word, SLOT | 1)).expect("the first");
        assert!(counts(word, SLOT | 1) && !counts(word, SLOT | 2));
        // Its process has ended, and another lends one and has it back.
        let word = lent_once_more(word, SLOT | 2).expect("a later one");
        assert!(counts(word, SLOT | 2) && !counts(word, SLOT | 1));
        // Those of the earlier one come and go, and change nothing.
        assert_eq!((lent_once_more(word, SLOT | 1), lent_once_less(word, SLOT | 1)), (None, None));
        let word = lent_once_less(word, SLOT | 2).expect("it was lent");
        assert!(!counts(word, SLOT | 2));
    }

    #[test]
    fn more_than_can_be_counted_are_lent_for_good() {
        let word = 3 << COUNT_BITS | (MOST - 1);
        let word = lent_once_more(word, SLOT | 3).expect("one more");
        assert_eq!((lent_once_more(word, SLOT | 3), lent_once_less(word, SLOT | 3)), (Some(word), None));
        assert!(counts(word, SLOT | 3));
    }
}
