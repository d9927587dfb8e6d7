//! How many steps a process has made, and how many messages it has taken: the slot's `counts`.

use super::Slot;
use crate::sync::Ordering;
use crate::table::card::{ALL_STEPS, Card};

const STEP_BITS: u32 = 12;
const STEPS: u32 = (1 << STEP_BITS) - 1;

impl Slot {
    /// Counts a step that has taken so many messages. Only the token's holder calls it.
    ///
    /// What is counted is on the first line, so that a message does not touch the second: twelve bits for steps, twenty for
    /// messages, which go over to the second line when the first are full. A step takes fewer than 256 messages.
    #[inline]
    pub(crate) fn count(&self, messages: u32) {
        let mut counts = self.counts.load(Ordering::Relaxed);
        if counts & STEPS == STEPS {
            self.carry(counts);
            counts = 0;
        }
        self.counts.store(counts + (messages << STEP_BITS) + 1, Ordering::Relaxed);
    }

    #[cold]
    fn carry(&self, counts: u32) {
        let Card { steps, messages, .. } = &self.card;
        let before = steps.load(Ordering::Relaxed);
        let after = before.wrapping_add(u64::from(counts & STEPS)) & ALL_STEPS;
        steps.store(before & !ALL_STEPS | after, Ordering::Relaxed);
        let taken = messages.load(Ordering::Relaxed).wrapping_add(u64::from(counts >> STEP_BITS));
        messages.store(taken, Ordering::Relaxed);
    }

    /// How many steps the process has made, and how many messages it has taken. A glance from anywhere, which may be
    /// off by the last 4,095 steps for a moment while they are carried over.
    pub(crate) fn counted(&self) -> (u64, u64) {
        loop {
            let counts = self.counts.load(Ordering::Acquire);
            let steps = self.card.steps.load(Ordering::Acquire) & ALL_STEPS;
            let messages = self.card.messages.load(Ordering::Acquire);
            // Smaller than before: it has been carried over meanwhile.
            if self.counts.load(Ordering::Relaxed) >= counts {
                return (steps + u64::from(counts & STEPS), messages + u64::from(counts >> STEP_BITS));
            }
        }
    }
}
