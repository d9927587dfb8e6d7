//! The one clock: every time that the runtime reads comes from here, so that a simulator can stand in.

use crate::sync::{AtomicU64, Ordering};
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A point in time: nanoseconds since shortly before the program first asked. Eight bytes, as its `Option`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(NonZeroU64);

impl Moment {
    /// Later than any other: what is due then never comes.
    pub(crate) const NEVER: Self = Self(NonZeroU64::MAX);

    fn from_nanoseconds(nanoseconds: u128) -> Self {
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX).max(1);
        NonZeroU64::new(nanoseconds).map_or(Self::NEVER, Self)
    }

    /// Now. Costs a read of the system's clock, 23 ns on the machine of the book.
    pub(crate) fn now() -> Self {
        Self::from_instant(instant_now())
    }

    pub(crate) fn from_instant(instant: Instant) -> Self {
        Self::from_nanoseconds(instant.saturating_duration_since(origin()).as_nanos())
    }

    /// That much later; [`Moment::NEVER`] if it is beyond what can be told (584 years).
    pub(crate) fn after(self, duration: Duration) -> Self {
        Self::from_nanoseconds(u128::from(self.0.get()).saturating_add(duration.as_nanos()))
    }

    /// How long from `earlier` to this; zero if it is not later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

/// Now, in the form that users know.
pub(crate) fn instant_now() -> Instant {
    Instant::now()
}

fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// A moment that threads share, such as the next one that a timer is due at.
#[derive(Debug)]
pub(crate) struct SharedMoment(AtomicU64);

impl SharedMoment {
    pub(crate) const fn new(moment: Moment) -> Self {
        Self(AtomicU64::new(moment.0.get()))
    }

    pub(crate) fn load(&self) -> Moment {
        Moment(NonZeroU64::new(self.0.load(Ordering::SeqCst)).unwrap_or(NonZeroU64::MIN))
    }

    pub(crate) fn store(&self, moment: Moment) {
        self.0.store(moment.0.get(), Ordering::SeqCst);
    }
}

/// Names a timer that was set. Never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerKey {
    pub(crate) place: usize,
    pub(crate) serial: u64,
}

/// Somebody who does things later.
pub(crate) trait TimeKeeper: Send + Sync {
    /// Does `action` when `due`. `None` if nobody keeps the time here.
    fn later(&'static self, due: Moment, action: Box<dyn FnOnce() + Send>) -> Option<TimerKey>;

    /// Does not do it, if it has not been done.
    fn forget(&'static self, key: TimerKey);
}
