//! The time as the state machines see it: a reading that the caller passes in.

use std::ops::Add;
use std::time::Duration;

/// The maximum duration of a wait. It bounds the delay if the clock that measures the wait stops while the machine is
/// suspended.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// A reading of the caller's clock: the time since a start that is common to all readings of one program.
///
/// The clock must have three properties, and [`Instant`](std::time::Instant) lacks the second on most systems:
///
/// 1. It never goes backwards, and no one can set it, unlike a wall clock.
/// 2. It **counts the time for which the machine is suspended**: a lease that still seems fresh to the suspended
///    machine has long expired for everyone else. Such a clock is `CLOCK_BOOTTIME` on Linux, `mach_continuous_time` on
///    macOS and `QueryInterruptTime` on Windows.
/// 3. It runs at most 0.1 % faster or slower than that of the broker.
///
/// Readings of different programs are never compared, and never sent: the clocks of two machines are unrelated.
///
/// A virtual machine that its host pauses may have no clock that counts the pause, and no program can detect that
/// from inside. A resource that a holder writes to must therefore check the fencing token of each write.
///
/// ```
/// use postroom_cluster::clock::Moment;
/// use std::time::Duration;
///
/// let began = Moment::START + Duration::from_secs(5);
/// let now = began + Duration::from_millis(1_500);
/// assert_eq!(now.since(began), Duration::from_millis(1_500));
/// assert_eq!(began.since(now), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The start of the clock.
    pub const START: Self = Self(Duration::ZERO);

    /// Returns the reading of a clock that started `elapsed` ago.
    pub const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Saturates: a time limit of [`Duration::MAX`] never expires.
impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }
}

/// Reads a clock that counts the time for which the machine is suspended.
///
/// On Linux and Android that is `CLOCK_BOOTTIME`. On other systems it is [`Instant`](std::time::Instant), which may
/// not count it: a node that wakes up there may send for up to the lease time before it learns that it is lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    /// Returns the current time.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn now(self) -> Moment {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Moment(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0)))
    }

    /// Returns the current time.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub fn now(self) -> Moment {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        Moment(START.get_or_init(std::time::Instant::now).elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_without_an_end_is_never_reached() {
        let late = Moment::after_start(Duration::from_secs(u64::MAX / 2));
        assert!(late + Duration::MAX > late);
        assert_eq!(late + Duration::MAX + Duration::from_secs(1), late + Duration::MAX);
    }
}
