//! The moment when the first timer of a host is due: one word that combines the words of several wheels.
//!
//! The word of a wheel is never later than the first timer of that wheel, and the word of the host is never later than
//! the first timer of all. A wheel's word is written under the wheel's lock. The host's word is lowered by a thread
//! that sets a timer ([`NextDue::lower`]), and raised by a thread that has found nothing due ([`NextDue::raise`]):
//!
//! * X1 a thread that sets a timer lowers the wheel's word; X2 then lowers the host's word, if the timer is earlier.
//! * X3 a thread that raises the host's word reads it; X4 reads the words of all wheels; X5 exchanges the value of X3
//!   for their minimum; X6 reads the words of all wheels again, and lowers the host's word to their minimum.
//!
//! No timer is lost. If X2 precedes X5 and lowers the word, X5 fails. If X2 precedes X5 and finds nothing to lower,
//! then X1 precedes X6, and X6 reads the word that X1 wrote. If X2 follows X5, it compares with the value that X5
//! wrote. (All operations are sequentially consistent.) If X6 lowers the moment that X5 wrote, and a thread has gone to
//! sleep until that moment, the thread is woken as if the timer had been set at X6.

use crate::env::clock::{Moment, SharedMoment};
use crate::sync::fence_for_models;

/// A moment no later than the first timer of a host; [`Moment::NEVER`] if there is none.
pub(crate) struct NextDue(SharedMoment);

impl NextDue {
    /// Creates the word of empty wheels.
    pub(crate) fn new() -> Self {
        Self(SharedMoment::new(Moment::NEVER))
    }

    #[inline]
    pub(crate) fn load(&self) -> Moment {
        self.0.load()
    }

    /// Performs X1 and X2, for a timer in a wheel whose lock is held. Returns whether `due` precedes all other timers.
    pub(crate) fn lower(&self, of_wheel: &SharedMoment, due: Moment) -> bool {
        if due < of_wheel.load() {
            of_wheel.store(due);
        }
        fence_for_models();
        due < self.0.load() && self.0.lower(due)
    }

    /// Performs X3 to X6. `least` returns the minimum of the wheels' words. Returns whether a timer that precedes all
    /// others was set in the meantime, in which case a thread must be woken.
    pub(crate) fn raise(&self, least: impl Fn() -> Moment) -> bool {
        let before = self.0.load();
        let raised = self.0.exchange(before, least());
        fence_for_models();
        raised && self.0.lower(least())
    }
}
