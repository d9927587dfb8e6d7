//! Delays before restarts.

use std::time::Duration;

/// The delay before a restart: longer with each failure in a row, up to a cap.
///
/// The delays are `min`, 2 × `min`, 4 × `min` and so on, at most `max`. Each is shortened at random, by up to half
/// unless [`jitter`](Self::jitter) says otherwise, so that children that failed together do not return together. After
/// a run of at least [`reset_after`](Self::reset_after), the delays start at `min` again.
///
/// ```
/// use postroom::supervision::Backoff;
/// use std::time::Duration;
///
/// let patient = Backoff::exponential(Duration::from_millis(50), Duration::from_secs(30));
/// let exact = patient.clone().jitter(0.0).reset_after(Duration::from_secs(60));
/// assert_ne!(patient, exact);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    /// The largest random reduction of a delay, in 1,024ths.
    jitter: u16,
    reset_after: Duration,
}

/// The value of `jitter` that represents a [`Backoff::jitter`] of 1.0.
const WHOLE: u16 = 1_024;

impl Backoff {
    /// Creates a backoff whose delays double from `min` up to `max`, with a jitter of one half. A `max` below `min`
    /// counts as `min`.
    ///
    /// A run as long as the longest delay counts as stable. A delay of [`Duration::MAX`] never passes: the child stays
    /// down until it is restarted by request.
    pub fn exponential(min: Duration, max: Duration) -> Self {
        let max = max.max(min);
        Self { min, max, jitter: WHOLE / 2, reset_after: max }
    }

    /// Creates a backoff with exactly the same delay each time.
    pub fn constant(delay: Duration) -> Self {
        Self { jitter: 0, ..Self::exponential(delay, delay) }
    }

    /// Creates a backoff without delay: restarts follow failures at once.
    pub fn none() -> Self {
        Self::constant(Duration::ZERO)
    }

    /// Sets the largest random reduction of a delay: from 0.0 for none to 1.0 for all of it. Values outside of this
    /// range are clamped, and NaN counts as 0.0.
    pub fn jitter(mut self, share: f64) -> Self {
        // NaN becomes zero here.
        self.jitter = (share.clamp(0.0, 1.0) * f64::from(WHOLE)) as u16;
        self
    }

    /// Sets how long a child must run for its next failure to count as the first in a row.
    pub fn reset_after(mut self, run: Duration) -> Self {
        self.reset_after = run;
        self
    }

    /// Counts a failure after a run of length `run`, or a failed start (`None`). Returns the delay before the next
    /// start.
    pub(crate) fn failed(&self, in_a_row: &mut u32, run: Option<Duration>, chance: u64) -> Duration {
        let is_stable = run.is_some_and(|run| run >= self.reset_after);
        *in_a_row = if is_stable { 1 } else { in_a_row.saturating_add(1) };
        self.delay(*in_a_row, chance)
    }

    /// Returns the delay after the `failures`th failure in a row, counted from one. `chance` is uniformly random.
    pub(crate) fn delay(&self, failures: u32, chance: u64) -> Duration {
        let doublings = failures.saturating_sub(1).min(64);
        let full = (self.min.as_nanos() << doublings).min(self.max.as_nanos());
        if full >= Duration::MAX.as_nanos() {
            // Without this, jitter would turn it into a delay of centuries.
            return Duration::MAX;
        }
        // 20 random bits: finer than a millionth of the delay. The product stays below 2^(94 + 30).
        let taken = full * u128::from(self.jitter) * u128::from(chance >> 44) / (u128::from(WHOLE) << 20);
        let left = full - taken;
        Duration::new((left / 1_000_000_000) as u64, (left % 1_000_000_000) as u32)
    }
}

/// Creates a backoff from ten milliseconds to ten seconds: the first restart has no perceptible delay, and a child that
/// always fails does not keep a worker busy.
impl Default for Backoff {
    fn default() -> Self {
        Self::exponential(Duration::from_millis(10), Duration::from_secs(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn delays_double_up_to_the_cap() {
        let backoff = Backoff::exponential(ms(50), ms(1_000)).jitter(0.0);
        let delays: Vec<_> = (1..=8).map(|failures| backoff.delay(failures, u64::MAX)).collect();
        assert_eq!(delays, [50, 100, 200, 400, 800, 1_000, 1_000, 1_000].map(ms));
        assert_eq!(backoff.delay(u32::MAX, 0), ms(1_000));
        assert_eq!(backoff.delay(0, 0), ms(50), "a failure that was not counted is taken for the first");
    }

    #[test]
    fn chance_takes_away_up_to_its_share_and_never_adds() {
        let backoff = Backoff::exponential(ms(1_024), ms(1_024));
        assert_eq!(backoff.delay(1, 0), ms(1_024));
        assert_eq!(backoff.delay(1, 1 << 63), ms(768));
        let least = backoff.delay(1, u64::MAX);
        assert!(least >= ms(512) && least < ms(513), "{least:?}");
        let all = backoff.jitter(1.0);
        assert!(all.delay(1, u64::MAX) < ms(1));
    }

    #[test]
    fn jitter_out_of_range_is_the_nearest_in_range() {
        let backoff = Backoff::exponential(ms(1_024), ms(1_024));
        assert_eq!(backoff.clone().jitter(-3.0), backoff.clone().jitter(0.0));
        assert_eq!(backoff.clone().jitter(f64::INFINITY), backoff.clone().jitter(1.0));
        assert_eq!(backoff.clone().jitter(f64::NAN), backoff.jitter(0.0));
    }

    #[test]
    fn the_longest_durations_neither_overflow_nor_pass() {
        let never = Backoff::exponential(Duration::MAX, Duration::ZERO).jitter(1.0);
        assert_eq!(never.delay(u32::MAX, u64::MAX), Duration::MAX);
        let late = Backoff::exponential(Duration::from_secs(1), Duration::MAX);
        assert_eq!(late.delay(u32::MAX, u64::MAX), late.delay(65, u64::MAX));
        assert!(late.delay(64, 7) > Duration::from_secs(1 << 62));
        assert_eq!(Backoff::none().delay(9, 9), Duration::ZERO);
    }

    #[test]
    fn a_run_as_long_as_the_longest_delay_is_stable_unless_told_otherwise() {
        let backoff = Backoff::exponential(ms(1), ms(100));
        let is_stable = |backoff: &Backoff, run| {
            let mut in_a_row = 4;
            backoff.failed(&mut in_a_row, Some(run), 0);
            in_a_row == 1
        };
        assert!(is_stable(&backoff, ms(100)) && !is_stable(&backoff, ms(99)));
        assert!(!is_stable(&backoff.reset_after(ms(101)), ms(100)));
        assert!(!is_stable(&Backoff::none().reset_after(Duration::MAX), ms(1 << 40)));
    }
}
