//! Giving up the token of a process that a thread has kept.

use crate::mailbox::lanes::ParkResult;
use crate::slots::Token;
use crate::slots::slot::words::ParkKind;

/// The result of giving up the token of a kept process.
#[must_use = "the token may still be held"]
pub(crate) enum Evicted {
    Parked,
    /// Something has arrived: the process must be queued.
    HasInput(Token),
    /// The process has ended in the meantime, on another thread. Its slot is vacant or has another process, perhaps one
    /// of another host. The token must go to [`Token::pass_on`], which may run user code.
    HasEnded(Token),
}

impl Token {
    /// Parks the token of a kept process. Schedules nothing, so it may be called with a lock held.
    pub(crate) fn evict(self) -> Evicted {
        let (slot, generation) = (self.slot(), self.generation());
        let kind = slot.permit.kept();
        slot.permit.keep(None);
        if kind == Some(ParkKind::Waiting) {
            // SAFETY: this is the token.
            return match unsafe { slot.lanes.park_waiting() } {
                ParkResult::Parked => Evicted::Parked,
                ParkResult::Refused => Evicted::HasInput(self),
                ParkResult::Reclaimed(_) => unreachable!("the mark and the lane are one word"),
            };
        }
        // SAFETY: this is the token.
        match unsafe { slot.lanes.park_idle() } {
            ParkResult::Parked => Evicted::Parked,
            ParkResult::Refused => Evicted::HasInput(self),
            ParkResult::Reclaimed(_) if slot.living() == Some(generation) => Evicted::HasInput(self),
            ParkResult::Reclaimed(_) => Evicted::HasEnded(self),
        }
    }
}
