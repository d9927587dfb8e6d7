//! The counters of a slot: steps made and messages taken.

use super::Slot;
use super::metadata::{ALL_STEPS, Metadata};
use crate::sync::Ordering;

/// The word on the first cache line: twelve bits of steps, twenty of messages.
#[derive(Clone, Copy)]
struct CountsWord(u32);

impl CountsWord {
    const STEP_BITS: u32 = 12;
    #[inline]
    fn steps(self) -> u32 {
        self.0 & ((1 << Self::STEP_BITS) - 1)
    }

    #[inline]
    fn messages(self) -> u32 {
        self.0 >> Self::STEP_BITS
    }

    /// Adds a step with its messages. If there was no room for it, the steps are zero.
    #[inline]
    fn and_step(self, messages: u32) -> Self {
        Self(self.0.wrapping_add((messages << Self::STEP_BITS) + 1))
    }
}

/// In the messages of the second line, which never get so large: the process is handling a message, or holds some.
const WORKS: u64 = 1 << 63;

impl Slot {
    /// Counts a step that has taken fewer than 256 messages. For the token's holder.
    ///
    /// The count is on the first cache line; the second takes over when no more steps fit.
    #[inline]
    pub(crate) fn count(&self, messages: u32) {
        let counts = CountsWord(self.counts.load(Ordering::Relaxed));
        let mut next = counts.and_step(messages);
        if next.steps() == 0 {
            self.carry(counts);
            next = CountsWord(0).and_step(messages);
        }
        self.counts.store(next.0, Ordering::Relaxed);
    }

    #[cold]
    fn carry(&self, counts: CountsWord) {
        let Metadata { steps, messages, .. } = &self.metadata;
        let before = steps.load(Ordering::Relaxed);
        let after = before.wrapping_add(u64::from(counts.steps())) & ALL_STEPS;
        steps.store(before & !ALL_STEPS | after, Ordering::Relaxed);
        let taken = messages.load(Ordering::Relaxed).wrapping_add(u64::from(counts.messages()));
        messages.store(taken, Ordering::Relaxed);
    }

    /// Notes whether the process, between two of its steps, handles a message or holds some. For the token's holder.
    #[cold]
    pub(crate) fn note_work(&self, works: bool) {
        let messages = self.metadata.messages.load(Ordering::Relaxed) & !WORKS;
        self.metadata.messages.store(if works { messages | WORKS } else { messages }, Ordering::Relaxed);
    }

    /// Returns whether the process runs or is about to, or has work left from messages: in its mailbox, held by it, or
    /// a wait in the middle of a message. From any thread, stale at once.
    pub(crate) fn has_work_left(&self) -> bool {
        self.is_working() || self.lanes.depth() > 0
    }

    /// Returns whether the process is idle, and whether it waits for control only. From any thread, stale at once.
    pub(crate) fn glance(&self) -> (bool, bool) {
        let (is_idle, waits) = self.lanes.glance();
        let is_kept_idle = self.permit.is_kept_idle() && self.lanes.depth() == 0;
        (is_idle || is_kept_idle, waits || self.permit.is_kept_waiting() && !self.lanes.has_control())
    }

    /// Returns whether there is more than its mailbox to that.
    pub(crate) fn is_working(&self) -> bool {
        let (is_idle, waits) = self.glance();
        let is_parked = is_idle || waits;
        let waits_for_yields = waits && self.metadata.outstanding.load(Ordering::Relaxed) > 0;
        !is_parked || waits_for_yields || self.is_in_message()
    }

    /// Returns whether the process, between two of its steps, handles a message or holds some.
    pub(crate) fn is_in_message(&self) -> bool {
        self.metadata.messages.load(Ordering::Relaxed) & WORKS != 0
    }

    /// Returns the numbers of steps made and messages taken. From any thread; may be off by the last 4,095 steps for a
    /// moment, while they are carried over.
    pub(crate) fn counted(&self) -> (u64, u64) {
        loop {
            let counts = CountsWord(self.counts.load(Ordering::Acquire));
            let steps = self.metadata.steps.load(Ordering::Acquire) & ALL_STEPS;
            let messages = self.metadata.messages.load(Ordering::Acquire) & !WORKS;
            // Smaller than before: it was carried over meanwhile.
            if self.counts.load(Ordering::Relaxed) >= counts.0 {
                return (steps + u64::from(counts.steps()), messages + u64::from(counts.messages()));
            }
        }
    }
}
