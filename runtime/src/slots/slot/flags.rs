//! The flags of a slot.

use super::{Slot, Token};
use crate::sync::{AtomicU8, Ordering};

pub(super) const COLD_STATE: u8 = 1;
/// The mailbox is above its bound. A hint for senders: one that sees it late checks once too few or too many.
pub(super) const CONGESTED: u8 = 2;
/// The cold state has work for each step: values to pass on, or controls that were left.
pub(super) const CHECKS_COLD_STATE: u8 = 4;
/// The process is suspended at the congested mailbox of another.
const SUSPENDED: u8 = 8;
/// The mailbox has its own bound. Set before the process begins.
const OWN_BOUND: u8 = 16;
/// The bound is hard: messages are in a queue, and placeholders for them in the lane. Set before the process begins.
pub(super) const HARD_BOUND: u8 = 32;
/// The process has a supervisor, which stops it when its host is shut down.
const SUPERVISED: u8 = 64;
/// Requests to stop are delivered to the process as signals, ahead of its messages: it has others to stop first.
const TOLD_TO_STOP: u8 = 128;

pub(super) struct Flags(AtomicU8);

impl Flags {
    pub(super) fn none() -> Self {
        Self(AtomicU8::new(0))
    }

    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns whether one of `flags` is set. Relaxed.
    #[inline]
    pub(super) fn any(&self, flags: u8) -> bool {
        self.0.load(Ordering::Relaxed) & flags != 0
    }

    /// Like `any`, sequentially consistent.
    fn any_in_order(&self, flags: u8) -> bool {
        self.0.load(Ordering::SeqCst) & flags != 0
    }

    pub(super) fn set(&self, flags: u8, to: bool) {
        if to {
            self.0.fetch_or(flags, Ordering::SeqCst);
        } else {
            self.0.fetch_and(!flags, Ordering::SeqCst);
        }
    }
}

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

    /// Returns whether the thread may keep the token while the process is idle: senders need not ask about its bound,
    /// and its steps look at nothing besides its lanes.
    #[inline(always)]
    pub(crate) fn may_stay_warm(&self) -> bool {
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
