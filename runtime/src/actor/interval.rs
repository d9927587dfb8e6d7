//! Ticks.

use super::awaits::sleep_until;
use crate::clock::Moment;
use std::time::Duration;

/// What an [`Interval`] does about ticks that nobody was there for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// They are left out; the next tick comes when it would have come anyway.
    #[default]
    Skip,
    /// They come at once, one after the other.
    Burst,
    /// The next tick comes one period after this late one.
    Delay,
}

/// Ticks. See [`Context::interval`](super::context::Context::interval).
#[derive(Debug)]
pub struct Interval {
    next: Moment,
    period: Duration,
    missed: Missed,
}

impl Interval {
    pub(super) fn new(period: Duration) -> Self {
        let period = period.max(Duration::from_nanos(1));
        Self { next: Moment::now().after(period), period, missed: Missed::default() }
    }

    /// What to do about ticks that nobody was there for.
    #[must_use]
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Waits for the next tick. Safe to cancel: the tick is not lost.
    pub async fn tick(&mut self) {
        sleep_until(self.next).await;
        let now = Moment::now();
        let regular = self.next.after(self.period);
        self.next = match self.missed {
            Missed::Burst => regular,
            Missed::Delay => now.after(self.period),
            Missed::Skip if regular >= now => regular,
            Missed::Skip => {
                let period = self.period.as_nanos();
                let missed = now.since(self.next).as_nanos() / period;
                let skipped = u64::try_from(period * (missed + 1)).unwrap_or(u64::MAX);
                self.next.after(Duration::from_nanos(skipped))
            }
        };
    }
}
