//! A rate limit for log events that a program can trigger arbitrarily often.

use crate::env::clock::Moment;
use crate::sync::{AtomicU64, Ordering};
use std::time::Duration;

/// Maximum number of events that are logged in one [`PERIOD`]. A guess: enough to see which processes are affected.
pub(crate) const MOST: u64 = 10;

const PERIOD: Duration = Duration::from_secs(1);

/// Admits [`MOST`] events in each period and counts the others. Costs one or two atomic additions. Threads that race at
/// the beginning of a period may suppress an event for which there was room; that event is still counted.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    /// The end of the current period, in nanoseconds.
    end: AtomicU64,
    /// Events of this period, logged or not.
    events: AtomicU64,
    /// Events that were suppressed since the last logged one.
    suppressed: AtomicU64,
}

impl LogLimit {
    /// Admits this event or suppresses it. If it is admitted, returns how many events were suppressed since the last
    /// logged one.
    pub(crate) fn admit(&self, now: Moment) -> Option<u64> {
        let end = self.end.load(Ordering::Relaxed);
        let is_first = now.nanoseconds() >= end
            && self
                .end
                .compare_exchange(end, now.after(PERIOD).nanoseconds(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if is_first {
            self.events.store(0, Ordering::Relaxed);
        }
        if self.events.fetch_add(1, Ordering::Relaxed) < MOST {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Forgets all events, for reuse by another host.
    pub(crate) fn reset(&self) {
        let Self { end, events, suppressed } = self;
        [end, events, suppressed].into_iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Catches: a flood that is logged, suppressed events that are not counted, and a limit that stays reached.
    #[test]
    fn a_flood_is_logged_ten_times_a_second_and_the_rest_is_counted() {
        let limit = LogLimit::default();
        let start = Moment::of_nanoseconds(5_000_000_000);
        let admitted: Vec<u64> = (0..1_000).filter_map(|_| limit.admit(start)).collect();
        assert_eq!(admitted, [0; MOST as usize]);
        let shortly_before = start.after(PERIOD - Duration::from_nanos(1));
        assert_eq!(limit.admit(shortly_before), None);
        // The next logged event reports all suppressed ones.
        assert_eq!(limit.admit(start.after(PERIOD)), Some(1_000 - MOST + 1));
        assert_eq!(limit.admit(start.after(PERIOD)), Some(0));
        (0..MOST).for_each(|_| _ = limit.admit(start.after(PERIOD)));
        limit.reset();
        assert_eq!(limit.admit(start), Some(0));
    }
}
