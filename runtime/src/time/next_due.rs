//! When the first timer of a host is due: one word over those of several wheels.
//!
//! The word of a wheel is never later than its first timer, and neither is the word of the whole. A wheel's word is
//! written under the wheel's lock. The whole's is lowered by a thread that sets a timer ([`NextDue::lower`]), and
//! raised by a thread that has found nothing due ([`NextDue::raise`]):
//!
//! * S1 a thread that sets a timer lowers the wheel's word; S2 then, if that is earlier, the whole's.
//! * R1 a thread that raises the whole's word reads it; R2 reads all wheels'; R3 exchanges the value of R1 for their
//!   minimum; R4 reads all wheels' words again, and lowers the whole's to their minimum.
//!
//! No timer is lost: if S2 precedes R3 and lowers, R3 fails. If S2 finds nothing to lower before R3, S1 precedes R4,
//! which sees it. If S2 follows R3, it compares with the value that R3 wrote. (All operations are sequentially
//! consistent.) A thread that went to sleep by the value of R3, which R4 has lowered, is woken as if the timer were set
//! at R4.

use crate::env::clock::{Moment, SharedMoment};
use crate::sync::fence_for_models;

/// A moment no later than the first timer; [`Moment::NEVER`] if there is none.
pub(crate) struct NextDue(SharedMoment);

impl NextDue {
    /// Starts with empty wheels.
    pub(crate) fn new() -> Self {
        Self(SharedMoment::new(Moment::NEVER))
    }

    #[inline]
    pub(crate) fn load(&self) -> Moment {
        self.0.load()
    }

    /// S1 and S2, for a timer in that wheel, whose lock is held. Returns whether the moment precedes all others.
    pub(crate) fn lower(&self, of_wheel: &SharedMoment, due: Moment) -> bool {
        if due < of_wheel.load() {
            of_wheel.store(due);
        }
        fence_for_models();
        due < self.0.load() && self.0.lower(due)
    }

    /// R1 to R4; `least` reads the wheels' words. Returns whether a timer that precedes all others was set meanwhile,
    /// so that a thread must be woken.
    pub(crate) fn raise(&self, least: impl Fn() -> Moment) -> bool {
        let before = self.0.load();
        let raised = self.0.exchange(before, least());
        fence_for_models();
        raised && self.0.lower(least())
    }
}
