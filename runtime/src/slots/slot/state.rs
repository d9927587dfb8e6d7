//! The meaning of a slot's [words](super::words): its flags, and the counts of its process.

use super::metadata::{ALL_STEPS, Metadata};
use super::words::{
    CHECKS_COLD_STATE, CONGESTED, CountsWord, HARD_BOUND, OWN_BOUND, SUPERVISED, SUSPENDED, TOLD_TO_STOP,
};
use super::{Slot, Token};
use crate::sync::Ordering;

/// A bit in the message count of the second line. (The count never gets this large.) It means that the process is
/// handling a message, or holds some.
const WORKS: u64 = 1 << 63;

impl Slot {
    pub(crate) fn is_supervised(&self) -> bool {
        self.flags.any(SUPERVISED)
    }

    pub(crate) fn is_told_to_stop(&self) -> bool {
        self.flags.any(TOLD_TO_STOP)
    }

    pub(crate) fn note_congested(&self, is: bool) {
        self.flags.set(CONGESTED, is);
    }

    pub(crate) fn is_congested(&self) -> bool {
        self.flags.any_in_order(CONGESTED)
    }

    pub(crate) fn note_suspended(&self, is: bool) {
        self.flags.set(SUSPENDED, is);
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.flags.any_in_order(SUSPENDED)
    }

    /// Records that the mailbox has its own bound and, if that is hard, a queue.
    pub(crate) fn note_own_bound(&self, is_hard: bool) {
        self.flags.set(if is_hard { OWN_BOUND | HARD_BOUND } else { OWN_BOUND }, true);
    }

    pub(crate) fn has_own_bound(&self) -> bool {
        self.flags.any_in_order(OWN_BOUND)
    }

    pub(crate) fn is_hard_bounded(&self) -> bool {
        self.flags.any_in_order(HARD_BOUND)
    }

    pub(crate) fn has_mailbox_state(&self) -> bool {
        self.flags.any_in_order(CONGESTED | SUSPENDED | OWN_BOUND | HARD_BOUND)
    }

    /// Counts a step that has taken fewer than 256 messages. Called by the token's holder.
    ///
    /// Steps are counted on the first cache line; when no more fit there, the counts are added to those on the second.
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

    /// Records whether the process, between two of its steps, is handling a message or holds some. Called by the
    /// token's holder.
    #[cold]
    pub(crate) fn note_work(&self, works: bool) {
        let messages = self.metadata.messages.load(Ordering::Relaxed) & !WORKS;
        self.metadata.messages.store(if works { messages | WORKS } else { messages }, Ordering::Relaxed);
    }

    /// Returns true if the process runs or is about to run, or if it has work left from messages: it has messages in
    /// its mailbox, holds some itself, or waits in the middle of one. May be called from any thread; the result may
    /// already be out of date.
    pub(crate) fn has_work_left(&self) -> bool {
        self.is_working() || self.lanes.depth() > 0
    }

    /// Returns whether the process is idle, and whether it waits for control only. May be called from any thread; the
    /// result may already be out of date.
    pub(crate) fn glance(&self) -> (bool, bool) {
        let (is_idle, waits) = self.lanes.glance();
        let is_kept_idle = self.permit.is_kept_idle() && self.lanes.depth() == 0;
        (is_idle || is_kept_idle, waits || self.permit.is_kept_waiting() && !self.lanes.has_control())
    }

    /// Like [`has_work_left`](Self::has_work_left), but ignores messages in the mailbox.
    pub(crate) fn is_working(&self) -> bool {
        let (is_idle, waits) = self.glance();
        let is_parked = is_idle || waits;
        let waits_for_yields = waits && self.metadata.outstanding.load(Ordering::Relaxed) > 0;
        !is_parked || waits_for_yields || self.is_in_message()
    }

    /// Returns whether the process, between two of its steps, is handling a message or holds some.
    pub(crate) fn is_in_message(&self) -> bool {
        self.metadata.messages.load(Ordering::Relaxed) & WORKS != 0
    }

    /// Returns the numbers of steps made and messages taken. May be called from any thread; the result may be off by up
    /// to 4,095 steps while they are being carried over.
    pub(crate) fn counted(&self) -> (u64, u64) {
        loop {
            let counts = CountsWord(self.counts.load(Ordering::Acquire));
            let steps = self.metadata.steps.load(Ordering::Acquire) & ALL_STEPS;
            let messages = self.metadata.messages.load(Ordering::Acquire) & !WORKS;
            // A smaller value means that the counts were carried over in the meantime.
            if self.counts.load(Ordering::Relaxed) >= counts.0 {
                return (steps + u64::from(counts.steps()), messages + u64::from(counts.messages()));
            }
        }
    }
}

impl Token {
    /// Returns whether each step of the process must check its cold state, or the length of its mailbox.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        self.0.flags.any(CHECKS_COLD_STATE | CONGESTED)
    }

    /// Returns whether a thread may keep the token while the process has nothing to do. It may if senders need not
    /// check the bound of the mailbox, and the steps of the process check nothing besides its lanes.
    #[inline(always)]
    pub(crate) fn may_be_kept(&self) -> bool {
        !self.0.flags.any(CHECKS_COLD_STATE | CONGESTED | HARD_BOUND)
    }

    /// Sets whether each step checks the cold state. That is not needed for a name, a label, or waiters for the end.
    pub(crate) fn set_checks_cold_state(&self, checks: bool) {
        self.0.flags.set(CHECKS_COLD_STATE, checks);
    }

    pub(crate) fn describe(&self, is_supervised: bool, is_told_to_stop: bool) {
        self.0.flags.set(SUPERVISED, is_supervised);
        self.0.flags.set(TOLD_TO_STOP, is_told_to_stop);
    }
}
