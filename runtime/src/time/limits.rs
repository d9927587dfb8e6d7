//! The time limits of calls that no process awaits, most of which are answered long before.
//!
//! A timer for each, set and cancelled again, would be a quarter of the cost of such a call. So a limit is first put on
//! a list. From time to time a thread sweeps the lists: it forgets what is over, and sets timers for the rest. While
//! the lists are empty, that thread does nothing; the next limit wakes it.
//!
//! *No limit is missed*: each list notes, under its lock, whether it will be swept once more. A sweep that finds it
//! empty clears the note, and the limit that finds the note cleared wakes the thread.

use crate::sync::{CachePadded, Mutex, lock};

/// Number of lists. A guess: threads that share one seldom contend.
const LISTS: usize = 8;

/// Number of limits for which a list keeps memory. A guess: more come between two sweeps only in bursts.
const KEPT: usize = 4096;

pub(crate) struct TimeLimits<T>([CachePadded<Mutex<LimitList<T>>>; LISTS]);

struct LimitList<T> {
    limits: Vec<T>,
    will_be_swept: bool,
}

impl<T> TimeLimits<T> {
    pub(crate) fn new() -> Self {
        let list = || LimitList { limits: Vec::new(), will_be_swept: false };
        Self(std::array::from_fn(|_| CachePadded::new(Mutex::new(list()))))
    }

    /// Puts a limit on a list; `caller` is a number for which threads differ. Returns whether the thread that sweeps
    /// must be woken.
    #[must_use = "the thread must be woken"]
    pub(crate) fn add(&self, caller: u64, limit: T) -> bool {
        let mut list = lock(&self.0[caller as usize % LISTS]);
        list.limits.push(limit);
        !std::mem::replace(&mut list.will_be_swept, true)
    }

    /// Takes all limits off the lists, and passes them to `each`. Returns whether the caller must sweep once more:
    /// lists that were empty wake it, the others do not.
    pub(crate) fn sweep(&self, mut each: impl FnMut(T)) -> bool {
        let (mut limits, mut again) = (Vec::new(), false);
        for list in &self.0 {
            let mut list = lock(list);
            // Swapped, so that lists keep some capacity.
            std::mem::swap(&mut list.limits, &mut limits);
            list.will_be_swept = !limits.is_empty();
            again |= list.will_be_swept;
            drop(list);
            limits.drain(..).for_each(&mut each);
            limits.shrink_to(KEPT);
        }
        again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_limit_on_a_list_that_will_not_be_swept_wakes_the_thread() {
        let limits = TimeLimits::new();
        let mut swept = Vec::new();
        assert!(limits.add(0, 1) && !limits.add(0, 2) && limits.add(1, 3));
        assert!(limits.sweep(|limit| swept.push(limit)));
        assert!(!limits.add(0, 4));
        assert!(limits.sweep(|limit| swept.push(limit)));
        assert!(limits.add(1, 5), "its list was empty");
        assert!(limits.sweep(|limit| swept.push(limit)) && !limits.sweep(|limit| swept.push(limit)));
        assert!(limits.add(0, 6) && limits.add(1, 7));
        assert_eq!(swept, [1, 2, 3, 4, 5]);
    }
}
