//! The slot's `flags`: what few processes have or are.

use super::{Slot, Token};
use crate::sync::Ordering;

/// The process has cold state.
pub(crate) const EXTRAS: u8 = 1;
/// The mailbox is too full.
pub(crate) const OVERFULL: u8 = 2;
/// The cold state has something for each step: values to hand on, or controls that were left.
pub(crate) const ATTEND: u8 = 4;
/// The process is held at the full mailbox of another.
const HELD: u8 = 8;
/// The mailbox has a bound of its own.
const LIMITED: u8 = 16;
/// The messages of the mailbox are in a ring, for which there are tickets in the lane.
pub(crate) const RING: u8 = 32;
/// Somebody looks after the process, and stops it when its host goes down.
const SUPERVISED: u8 = 64;
/// The process is told to stop by a signal, ahead of its messages: it has others to stop first.
const TOLD_TO_STOP: u8 = 128;

impl Slot {
    /// Returns whether somebody looks after the process that lives here, and stops it when its host goes down.
    pub(crate) fn is_supervised(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & SUPERVISED != 0
    }

    /// Returns whether the process that lives here is told to stop by a signal.
    pub(crate) fn is_told_to_stop(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & TOLD_TO_STOP != 0
    }

    pub(crate) fn set_flag(&self, flag: u8, to: bool) {
        if to {
            self.flags.fetch_or(flag, Ordering::SeqCst);
        } else {
            self.flags.fetch_and(!flag, Ordering::SeqCst);
        }
    }

    fn has_flag(&self, flag: u8) -> bool {
        self.flags.load(Ordering::SeqCst) & flag != 0
    }

    /// Marks the mailbox as too full, or as one that is not.
    pub(crate) fn note_overfull(&self, is: bool) {
        self.set_flag(OVERFULL, is);
    }

    /// Returns whether the mailbox is marked as too full.
    pub(crate) fn is_overfull(&self) -> bool {
        self.has_flag(OVERFULL)
    }

    /// Marks the process as held, or as let go.
    pub(crate) fn note_held(&self, is: bool) {
        self.set_flag(HELD, is);
    }

    /// Returns whether the process is held.
    pub(crate) fn is_held(&self) -> bool {
        self.has_flag(HELD)
    }

    /// The mailbox has a bound of its own, and a ring if that is a hard one.
    pub(crate) fn note_limit(&self, ring: bool) {
        self.set_flag(if ring { LIMITED | RING } else { LIMITED }, true);
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.has_flag(LIMITED)
    }

    pub(crate) fn has_ring(&self) -> bool {
        self.has_flag(RING)
    }

    /// Returns whether something is kept of the process beside its slot.
    pub(crate) fn has_side(&self) -> bool {
        self.has_flag(OVERFULL | HELD | LIMITED | RING)
    }
}

impl Token {
    /// Returns whether each step of the process is to look at its cold state, or at how full its mailbox is.
    #[inline]
    pub(crate) fn is_special(&self) -> bool {
        self.0.flags.load(Ordering::Relaxed) & (ATTEND | OVERFULL) != 0
    }

    /// Says whether each step is to look at the cold state: not for a name, a label, or those who wait for the end.
    pub(crate) fn attend(&self, to_extras: bool) {
        self.0.set_flag(ATTEND, to_extras);
    }

    /// Says what the new process is to others.
    pub(crate) fn describe(&self, is_supervised: bool, is_told_to_stop: bool) {
        self.0.set_flag(SUPERVISED, is_supervised);
        self.0.set_flag(TOLD_TO_STOP, is_told_to_stop);
    }
}
