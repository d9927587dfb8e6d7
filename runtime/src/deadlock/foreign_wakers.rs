//! Counts, for each process, its wakers that foreign code holds. While there are any, unknown events may resume the
//! process.
//!
//! The counts are in a [side table](crate::slots::chunks) of the slots, so that a waker owns nothing and may outlive
//! its process. Each word holds a generation and the number of wakers of that generation's process. The first waker of
//! a later process in the slot restarts the count, so a waker that is never dropped hides only its own process from the
//! search for cycles.
//!
//! A wake decrements the count after it has marked the control lane and before the process runs. So a thread that reads
//! a count of zero also sees the wake, and the resumed process no longer counts the waker. A waker that is dropped
//! without a wake while its process waits does not change that wait: the wait stays unpublished.

use super::edges::index_of;
use super::wait_graph::Incarnation;
use crate::env::world::World;
use crate::pid::{GENERATION_MASK, SLOT_BITS};
use crate::slots::chunks::{ChunkEntry, Chunks};
use crate::sync::{AtomicU64, Ordering};

/// A [`LentWord`] for each slot.
static LENT: World<Chunks<AtomicU64>> = World::new(Chunks::new());

impl ChunkEntry for AtomicU64 {
    fn unused(_: u32) -> Self {
        Self::new(0)
    }
}

/// The generation of a process, and the number of its wakers held by foreign code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LentWord(u64);

/// Counts a new waker of the process.
pub(crate) fn lend(incarnation: Incarnation) {
    if let Some(lent) = LENT.make(index_of(incarnation)) {
        let _of_a_later_process = update(lent, Ordering::Relaxed, |word| word.once_more(incarnation));
    }
}

/// Subtracts a dropped waker from the count. Returns whether it was the last one.
pub(crate) fn give_back(incarnation: Incarnation) -> bool {
    let lent = LENT.get(index_of(incarnation));
    let before = lent.and_then(|lent| update(lent, Ordering::Release, |word| word.once_less(incarnation)));
    before.is_some_and(|before| before.count() == 1)
}

/// Replaces the word with the result of `change`. Returns the old word, or `None` if `change` left the word unchanged.
fn update(lent: &AtomicU64, order: Ordering, change: impl Fn(LentWord) -> Option<LentWord>) -> Option<LentWord> {
    lent.fetch_update(order, Ordering::Relaxed, |word| Some(change(LentWord(word))?.0)).ok().map(LentWord)
}

/// Returns whether foreign code holds wakers of the process. Only the thread that runs the process may call this,
/// because then no first waker can be added during the call.
#[inline]
pub(crate) fn is_lent(incarnation: Incarnation) -> bool {
    LENT.get(index_of(incarnation)).is_some_and(|lent| LentWord(lent.load(Ordering::Acquire)).counts(incarnation))
}

impl LentWord {
    const COUNT_BITS: u32 = SLOT_BITS;
    /// The largest count. A word that has reached it is saturated: the number of wakers is unknown, and the count is
    /// never decremented.
    const MOST: u64 = (1 << Self::COUNT_BITS) - 1;

    fn new(generation: u64, count: u64) -> Self {
        Self(generation << Self::COUNT_BITS | count)
    }

    #[inline]
    fn generation(self) -> u64 {
        self.0 >> Self::COUNT_BITS
    }

    #[inline]
    fn count(self) -> u64 {
        self.0 & Self::MOST
    }

    #[inline]
    fn counts(self, incarnation: Incarnation) -> bool {
        self.generation() == incarnation & GENERATION_MASK && self.count() != 0
    }

    /// Returns the incremented word, or `None` if the word belongs to a later process.
    fn once_more(self, incarnation: Incarnation) -> Option<Self> {
        let generation = incarnation & GENERATION_MASK;
        match self.generation().cmp(&generation) {
            std::cmp::Ordering::Less => Some(Self::new(generation, 1)),
            std::cmp::Ordering::Equal => Some(Self::new(generation, (self.count() + 1).min(Self::MOST))),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// Returns the decremented word, or `None` if it counts no waker of `incarnation`, or is saturated.
    fn once_less(self, incarnation: Incarnation) -> Option<Self> {
        (self.counts(incarnation) && self.count() != Self::MOST).then(|| Self::new(self.generation(), self.count() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pid::GENERATION_BITS;

    const SLOT: Incarnation = 7 << GENERATION_BITS;

    #[test]
    fn a_waker_that_is_never_dropped_counts_for_its_own_process_only() {
        let word = LentWord(0).once_more(SLOT | 1).and_then(|word| word.once_more(SLOT | 1)).expect("the first");
        assert!(word.counts(SLOT | 1) && !word.counts(SLOT | 2));
        // The process has ended, and the next one in its slot lends a waker and gets it back.
        let word = word.once_more(SLOT | 2).expect("a later one");
        assert!(word.counts(SLOT | 2) && !word.counts(SLOT | 1));
        // Wakers of the earlier process no longer change the word.
        assert_eq!((word.once_more(SLOT | 1), word.once_less(SLOT | 1)), (None, None));
        let word = word.once_less(SLOT | 2).expect("it was lent");
        assert!(!word.counts(SLOT | 2));
    }

    #[test]
    fn more_than_can_be_counted_are_lent_for_good() {
        let word = LentWord::new(3, LentWord::MOST - 1);
        let word = word.once_more(SLOT | 3).expect("one more");
        assert_eq!((word.once_more(SLOT | 3), word.once_less(SLOT | 3)), (Some(word), None));
        assert!(word.counts(SLOT | 3));
    }
}
