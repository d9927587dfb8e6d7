//! The one notion of time that the state machines have.

use std::ops::Add;
use std::time::Duration;

/// The longest wait: a guard against a clock that stands still while the machine is suspended.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// A reading of the caller's clock: the time since a start that is the same for all readings of one program.
///
/// The clock must have three properties, and [`Instant`](std::time::Instant) lacks the second on most systems:
///
/// 1. It never goes back, and nothing sets it, as a wall clock is set.
/// 2. It **counts the time that the machine is suspended**: a lease that seems fresh to the sleeper has long expired
///    for everyone else. That clock is `CLOCK_BOOTTIME` on Linux, `mach_continuous_time` on macOS and
///    `QueryInterruptTime` on Windows.
/// 3. It runs at most 0.1 % faster or slower than that of the broker.
///
/// Readings of different programs are never compared, and never sent: times of two machines have nothing in common.
///
/// A virtual machine that its host pauses may have no clock that counts the pause. No program can notice that from
/// inside; what a holder writes to must check the fencing token that goes with the write.
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

    /// Returns the time since `earlier`; zero if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Adds up to the end of time: a time limit of [`Duration::MAX`] never comes.
impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }
}

/// Reads a clock that counts the time that the machine is suspended.
///
/// On Linux and Android that is `CLOCK_BOOTTIME`. On other systems it is [`Instant`](std::time::Instant), which may not
/// count it: a node that wakes up there may send for up to a lease's time before it learns that it is lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    /// Returns the time now.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn now(self) -> Moment {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Moment(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0)))
    }

    /// Returns the time now.
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
