//! Periodic ticks.

use super::awaits::{TimerFuture, sleep_until};
use crate::env::clock::Moment;
use futures_core::Stream;
use std::task::{Context, Poll};
use std::{pin::Pin, time::Duration};

/// How an [`Interval`] treats missed ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTicks {
    /// Skips them; later ticks keep their schedule.
    #[default]
    Skip,
    /// Delivers them at once, one after the other.
    Burst,
    /// Delays the schedule: the next tick comes one period after the late one.
    Delay,
}

/// Periodic ticks, awaited one by one or taken as an endless [`Stream`]. See
/// [`Context::interval`](crate::actor::definition::context::Context::interval).
#[derive(Debug)]
pub struct Interval {
    next: Moment,
    period: Duration,
    missed: MissedTicks,
    /// The timer of the next tick, when used as a stream.
    timer: Option<TimerFuture>,
}

impl Interval {
    pub(crate) fn new(period: Duration) -> Self {
        let period = period.max(Duration::from_nanos(1));
        Self { next: Moment::now().after(period), period, missed: MissedTicks::default(), timer: None }
    }

    /// Sets how missed ticks are treated.
    #[must_use]
    pub fn missed(mut self, missed: MissedTicks) -> Self {
        self.missed = missed;
        self
    }

    /// Waits for the next tick. Cancel safe: no tick is lost.
    pub async fn tick(&mut self) {
        sleep_until(self.next).await;
        self.ticked();
    }

    fn ticked(&mut self) {
        let now = Moment::now();
        let regular = self.next.after(self.period);
        self.next = match self.missed {
            MissedTicks::Burst => regular,
            MissedTicks::Delay => now.after(self.period),
            MissedTicks::Skip if regular >= now => regular,
            // Strictly after `now`, even if a tick is due at this moment.
            MissedTicks::Skip => now.after(Duration::from_nanos(1)).next_of(self.next, self.period),
        };
    }
}

/// Like [`Interval::tick`].
impl Stream for Interval {
    type Item = ();

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<()>> {
        if self.next > Moment::now() {
            let next = self.next;
            let timer = self.timer.get_or_insert_with(|| TimerFuture::new(next));
            if timer.poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        self.timer = None;
        self.ticked();
        Poll::Ready(Some(()))
    }
}
