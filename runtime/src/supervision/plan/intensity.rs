//! The limit of restarts within a window of time.

use crate::env::clock::Moment;
use std::{collections::VecDeque, time::Duration};

/// The default limit and window.
pub(crate) const DEFAULT: (u32, Duration) = (5, Duration::from_secs(10));

/// The restarts of a supervisor or a pool within the window that ends now.
#[derive(Debug)]
pub(crate) struct Intensity {
    most: u32,
    within: Duration,
    /// The moments of the restarts in the window, oldest first; at most `most`.
    moments: VecDeque<Moment>,
}

impl Intensity {
    /// Creates a limit. `u32::MAX` means no limit and stores nothing.
    pub(crate) fn new(most: u32, within: Duration) -> Self {
        Self { most, within, moments: VecDeque::new() }
    }

    /// Returns whether this limit ever counts a restart: a window of length zero counts none.
    pub(crate) fn counts(most: u32, within: Duration) -> bool {
        !within.is_zero() || most == 0 || most == u32::MAX
    }

    pub(crate) fn limits(&self) -> (u32, Duration) {
        (self.most, self.within)
    }

    /// Returns whether another restart is allowed now, and counts it if so.
    pub(crate) fn allow(&mut self, now: Moment) -> bool {
        if self.most == u32::MAX {
            return true;
        }
        while self.moments.front().is_some_and(|&moment| now.since(moment) >= self.within) {
            self.moments.pop_front();
        }
        let allowed = self.moments.len() < self.most as usize;
        if allowed {
            self.moments.push_back(now);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Moment {
        Moment::now().after(Duration::from_secs(1)).later_by(milliseconds)
    }

    trait Later {
        fn later_by(self, milliseconds: u64) -> Self;
    }

    impl Later for Moment {
        fn later_by(self, milliseconds: u64) -> Self {
            self.after(Duration::from_millis(milliseconds))
        }
    }

    #[test]
    fn as_many_as_allowed_within_the_window_and_no_more() {
        let (mut intensity, start) = (Intensity::new(3, Duration::from_millis(100)), at(0));
        let allowed = [0, 10, 20, 30, 99].map(|now| intensity.allow(start.later_by(now)));
        assert_eq!(allowed, [true, true, true, false, false]);
        // The restart at 0 leaves the window at 100, the one at 10 leaves it at 110.
        assert_eq!([100, 109, 110].map(|now| intensity.allow(start.later_by(now))), [true, false, true]);
        assert_eq!(intensity.moments.len(), 3);
    }

    #[test]
    fn none_allowed_and_no_limit() {
        let (mut none, mut any) = (Intensity::new(0, Duration::MAX), Intensity::new(u32::MAX, Duration::MAX));
        assert!(!none.allow(at(0)));
        assert!((0..100).all(|_| any.allow(at(0))) && any.moments.is_empty());
    }

    #[test]
    fn a_window_without_end_forgets_nothing() {
        let (mut intensity, start) = (Intensity::new(2, Duration::MAX), at(0));
        assert!(intensity.allow(start) && intensity.allow(start.later_by(1)));
        assert!(!intensity.allow(start.after(Duration::from_secs(1 << 32))));
    }
}
