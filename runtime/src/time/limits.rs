//! The time limits of calls that no process awaits, most of which are answered long before.
//!
//! A timer for each, set and cancelled again, would be a quarter of the cost of such a call. So what waits is put on a
//! list, and from time to time a thread *sweeps* the lists: it sets timers for what has waited since the last sweep.
//! What waits again and again stays on its list, so that a call mostly costs no more than a look at a flag. After a
//! sweep that has found nothing in use, that thread rests until the next wait wakes it.
//!
//! # No limit is missed
//!
//! * A wait *begins* when it is written under a lock of its own. Its thread then *asks* whether there will be a sweep,
//!   and if not, wakes the thread that sweeps.
//! * A sweep first *announces its end*: that none will follow. Then it *visits* what is listed, under the same locks,
//!   and *announces another* if it has found something in use.
//!
//! If the visit comes after the beginning, it finds the wait. If it comes before, the thread asks after the end was
//! announced: it learns that there will be no sweep, or that another thread has seen to one. (The same holds for a wait
//! that is put on its list only after it has begun, by the lock of the list.) A model is in `tests/models`.

use crate::sync::{AtomicBool, CachePadded, Mutex, Ordering, lock};

/// Number of lists. A guess: threads that share one seldom contend.
const LISTS: usize = if cfg!(loom) { 2 } else { 8 };

/// What a visit has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visited {
    /// It stays on the list. It has not been in use since the last sweep.
    Unused,
    /// It stays on the list, and must be visited again.
    Used,
    /// It leaves the list.
    Leaves,
}

pub(crate) struct TimeLimits<T> {
    lists: [CachePadded<Mutex<Vec<T>>>; LISTS],
    will_be_swept: AtomicBool,
}

impl<T> TimeLimits<T> {
    pub(crate) fn new() -> Self {
        let list = |_| CachePadded::new(Mutex::new(Vec::new()));
        Self { lists: std::array::from_fn(list), will_be_swept: AtomicBool::new(false) }
    }

    /// Puts something on a list, before its first wait; `caller` is a number for which threads differ.
    pub(crate) fn add(&self, caller: u64, item: T) {
        lock(&self.lists[caller as usize % LISTS]).push(item);
    }

    /// Performs *ask*. If it returns false, the caller must see to a sweep.
    #[inline]
    pub(crate) fn will_be_swept(&self) -> bool {
        self.will_be_swept.load(Ordering::SeqCst)
    }

    /// Notes that there will be a sweep, or that there will be none.
    pub(crate) fn note_sweep(&self, will_be: bool) {
        self.will_be_swept.store(will_be, Ordering::SeqCst);
    }

    /// Sweeps the lists, as described above. Returns whether there must be another sweep.
    pub(crate) fn sweep(&self, mut visit: impl FnMut(&T) -> Visited) -> bool {
        self.note_sweep(false);
        let mut again = false;
        for list in &self.lists {
            let mut list = lock(list);
            list.retain(|item| {
                let visited = visit(item);
                again |= visited == Visited::Used;
                visited != Visited::Leaves
            });
            // After a burst.
            let most = 4 * list.len().max(64);
            list.shrink_to(most);
        }
        if again {
            self.note_sweep(true);
        }
        again
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sweeps_end_when_nothing_is_in_use_and_what_leaves_is_not_visited_again() {
        let limits = TimeLimits::new();
        (0..4).for_each(|number| limits.add(number, number));
        assert!(!limits.will_be_swept());
        let sweep = |results: [Visited; 4]| {
            let mut visited = Vec::new();
            let again = limits.sweep(|&number| {
                assert!(!limits.will_be_swept(), "what begins to wait now sees to another sweep");
                visited.push(number);
                results[number as usize]
            });
            assert_eq!(again, limits.will_be_swept());
            visited.sort_unstable();
            (visited, again)
        };
        use Visited::{Leaves, Unused, Used};
        assert_eq!(sweep([Unused, Leaves, Used, Unused]), (vec![0, 1, 2, 3], true));
        assert_eq!(sweep([Leaves, Used, Leaves, Unused]), (vec![0, 2, 3], false));
        assert_eq!(sweep([Used, Used, Used, Unused]), (vec![3], false));
    }
}
