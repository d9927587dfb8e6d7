//! A stand-in for the clock: time does not pass in the models, but moments can be compared.

use crate::sync::{AtomicU64, Ordering};

/// The service that fires timers, which does not exist in a model.
pub(crate) trait TimeKeeper {}

/// Returns the real time. It is used only for deadlines, which do not exist in a model.
pub(crate) fn instant_now() -> std::time::Instant {
    std::time::Instant::now()
}

/// The key of a timer.
#[derive(Clone, Copy)]
pub(crate) struct TimerKey;

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    pub(crate) const NEVER: Self = Self(u64::MAX);
}

/// A moment shared by threads.
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
