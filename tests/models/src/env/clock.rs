//! A stand-in for the clock: in the models time does not pass, but there are moments.

use crate::sync::{AtomicU64, Ordering};

/// Who keeps the time: nobody.
pub(crate) trait TimeKeeper {}

/// The time, for deadlines, which no model has.
pub(crate) fn instant_now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Names a timer that was set.
#[derive(Clone, Copy)]
pub(crate) struct TimerKey;

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    pub(crate) const NEVER: Self = Self(u64::MAX);
}

/// A moment that threads share.
#[derive(Debug)]
pub(crate) struct SharedMoment(AtomicU64);

impl SharedMoment {
    #[track_caller]
    pub(crate) fn new(moment: Moment) -> Self {
        Self(AtomicU64::new(moment.0))
    }

    #[track_caller]
    pub(crate) fn load(&self) -> Moment {
        Moment(self.0.load(Ordering::SeqCst))
    }

    #[track_caller]
    pub(crate) fn store(&self, moment: Moment) {
        self.0.store(moment.0, Ordering::SeqCst);
    }

    #[track_caller]
    pub(crate) fn lower(&self, moment: Moment) -> bool {
        self.0.fetch_min(moment.0, Ordering::SeqCst) > moment.0
    }

    #[track_caller]
    pub(crate) fn exchange(&self, old: Moment, new: Moment) -> bool {
        self.0.compare_exchange(old.0, new.0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}
