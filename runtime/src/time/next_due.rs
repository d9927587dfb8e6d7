//! When the first timer of a host is due: one word over those of several wheels.
//!
//! Each wheel tells when there is something to do in it, no later than its first timer is due, and so does the whole.
//! The word of a wheel is written under its lock. That of the whole is lowered by a thread that sets a timer
//! ([`NextDue::lower`]), and raised by a thread that has found nothing due ([`NextDue::raise`]):
//!
//! * S1 a thread that sets a timer lowers the wheel's; S2 then, if that is earlier, the whole's.
//! * R1 a thread that raises the whole's reads it; R2 reads all wheels'; R3 exchanges what it read at R1 for the least
//!   of them; R4 reads all wheels' once more, and lowers the whole's to the least of them.
//!
//! A timer is not lost: if S2 comes before R3 and lowers, R3 fails. If it finds nothing to lower before R3, S1 came
//! before R4, which sees it. If S2 comes after R3, it is compared with what R3 wrote. (All are sequentially
//! consistent.) A thread that slept by the time that R3 wrote, and that R4 has lowered, is woken as if the timer were
//! set at R4.

use crate::env::clock::{Moment, SharedMoment};
use crate::sync::fence_for_models;

/// When there is something to do: no later than the first timer is due, and [`Moment::NEVER`] if there is none.
pub(crate) struct NextDue(SharedMoment);

impl NextDue {
    /// Of wheels with nothing in them.
    pub(crate) fn new() -> Self {
        Self(SharedMoment::new(Moment::NEVER))
    }

    #[inline]
    pub(crate) fn load(&self) -> Moment {
        self.0.load()
    }

    /// S1 and S2, for a timer in that wheel, whose lock is held. Returns whether the moment is before all others.
    pub(crate) fn lower(&self, of_wheel: &SharedMoment, due: Moment) -> bool {
        if due < of_wheel.load() {
            of_wheel.store(due);
        }
        fence_for_models();
        due < self.0.load() && self.0.lower(due)
    }

    /// R1 to R4; `least` reads all wheels'. Returns whether a timer was set meanwhile that is due before all
    /// others, so
    ///    that
    /// a thread must be told.
    pub(crate) fn raise(&self, least: impl Fn() -> Moment) -> bool {
        let before = self.0.load();
        let raised = self.0.exchange(before, least());
        fence_for_models();
        raised && self.0.lower(least())
    }
}
