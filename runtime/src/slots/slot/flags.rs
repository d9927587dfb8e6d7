//! The [flags](super::flag_word) of a slot.

use super::flag_word::{CHECKS_COLD_STATE, CONGESTED, HARD_BOUND, OWN_BOUND, SUPERVISED, SUSPENDED, TOLD_TO_STOP};
use super::{Slot, Token};

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

    /// Notes that the mailbox has its own bound, and a queue if that is hard.
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
}

impl Token {
    /// Returns whether each step of the process must check its cold state, or the length of its mailbox.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        self.0.flags.any(CHECKS_COLD_STATE | CONGESTED)
    }

    /// Returns whether the thread may keep the token while the process has nothing to do: senders need not ask about
    /// its bound, and its steps look at nothing besides its lanes.
    #[inline(always)]
    pub(crate) fn may_be_kept(&self) -> bool {
        !self.0.flags.any(CHECKS_COLD_STATE | CONGESTED | HARD_BOUND)
    }

    /// Sets whether each step checks the cold state: not needed for a name, a label, or waiters for the end.
    pub(crate) fn set_checks_cold_state(&self, checks: bool) {
        self.0.flags.set(CHECKS_COLD_STATE, checks);
    }

    pub(crate) fn describe(&self, is_supervised: bool, is_told_to_stop: bool) {
        self.0.flags.set(SUPERVISED, is_supervised);
        self.0.flags.set(TOLD_TO_STOP, is_told_to_stop);
    }
}
