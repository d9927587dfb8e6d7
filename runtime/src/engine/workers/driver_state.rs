//! Which thread drives a permit that has no thread of its own.
//!
//! The permits of a host inside another library's runtime are tasks of that runtime (`sched/driven`): a thread *drives*
//! such a permit when it does what the permit's own thread would do, until the permit rests. At any time, some thread
//! may come to drive it: a thread that polls the task, or one that helps out while none does.
//!
//! * *call*: a thread that unparks the permit *calls* it: it marks the permit as called. If the permit is at rest and
//!   was not called before, the thread notifies the one that polls the permit.
//! * *begin*: a thread may drive the permit if it is called and at rest: one exchange clears the mark and makes that
//!   thread the driver. So a permit has *one driver at a time*.
//! * *rest*: a driver that has found the permit's next rest ends its drive by an exchange that succeeds only if the
//!   permit has not been called meanwhile. If it has, the driver clears the mark and continues. So *no call is missed*:
//!   the mark was set either before *rest*, which then finds it, or after, by a thread that finds the permit at rest
//!   and notifies.
//! * *stop*: a driver that stops before the permit rests leaves it called, and has it polled again.
//!
//! What a driver writes, and what was done before a call, is visible to the next driver: all four are read-modify-write
//! operations, each of which acquires what the ones before it have released. A model is in `tests/models`.

use crate::sync::{AtomicU8, Ordering};

const DRIVEN: u8 = 1;
const CALLED: u8 = 2;
const ENDED: u8 = 4;

/// What the thread that has called a permit must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a permit that rests must be polled"]
pub(crate) enum Called {
    /// Notify the one that polls the permit.
    AtRest,
    /// Unpark the driver, which may be waiting in a step.
    Driven,
    /// Nothing: another thread has called it, or it has ended.
    Before,
}

pub(crate) struct DriverState(AtomicU8);

impl DriverState {
    /// Returns the state of a permit that has been called, so that its first poll drives it.
    pub(crate) fn called() -> Self {
        Self(AtomicU8::new(CALLED))
    }

    /// Performs *call*.
    pub(crate) fn call(&self) -> Called {
        let before = self.0.fetch_or(CALLED, Ordering::SeqCst);
        match before {
            0 => Called::AtRest,
            _ if before & DRIVEN != 0 => Called::Driven,
            _ => Called::Before,
        }
    }

    /// Performs *begin*. Returns whether the caller is the driver now.
    pub(crate) fn begin(&self) -> bool {
        self.0.compare_exchange(CALLED, DRIVEN, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Performs *rest*. Returns false if the driver must continue.
    pub(crate) fn rest(&self) -> bool {
        let rests = self.0.compare_exchange(DRIVEN, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if !rests {
            self.0.fetch_and(!CALLED, Ordering::SeqCst);
        }
        rests
    }

    /// Performs *stop*. An exchange, so that the next driver sees what was done before a call that this one has not
    /// seen.
    pub(crate) fn stop(&self) {
        self.0.swap(CALLED, Ordering::SeqCst);
    }

    /// Marks the permit's context as ended. It is never driven again.
    pub(crate) fn end(&self) {
        self.0.store(ENDED, Ordering::SeqCst);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.load(Ordering::SeqCst) & ENDED != 0
    }

    /// Returns whether the permit has been called, and no thread drives it.
    pub(crate) fn waits(&self) -> bool {
        self.0.load(Ordering::SeqCst) == CALLED
    }
}
