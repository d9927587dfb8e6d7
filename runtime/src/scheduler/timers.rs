//! What is to happen later: a heap of moments over a table of what is due then.
//!
//! The heap and the table are under one lock per host, which is taken to set, cancel and fire, never to send or to run.
//! Cancelling takes the entry out of the table at once and leaves its moment in the heap until it comes or until half of
//! the heap is such moments. Any thread may fire what is due: workers do between steps, the lookout when it wakes.

use crate::clock::{Moment, SharedMoment, TimerKey};
use crate::sync::{Mutex, lock};
use slab::Slab;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens when a timer is due.
pub(crate) type Action = Box<dyn FnOnce() + Send>;

/// The timers of a host.
pub(crate) struct Timers {
    table: Mutex<Table>,
    /// When the first is due; [`Moment::NEVER`] if there is none.
    next: SharedMoment,
}

struct Table {
    heap: BinaryHeap<Reverse<(Moment, u64, usize)>>,
    entries: Slab<(u64, Action)>,
    serial: u64,
}

impl Timers {
    pub(crate) fn new() -> Self {
        let table = Table { heap: BinaryHeap::new(), entries: Slab::new(), serial: 0 };
        Self { table: Mutex::new(table), next: SharedMoment::new(Moment::NEVER) }
    }

    /// When the first is due; [`Moment::NEVER`] if there is none.
    pub(crate) fn next(&self) -> Moment {
        self.next.load()
    }

    /// Sets a timer. Gives its key, and whether it is due before all others, so that somebody must be told.
    pub(crate) fn set(&self, due: Moment, action: Action) -> (TimerKey, bool) {
        let mut table = lock(&self.table);
        table.serial += 1;
        let serial = table.serial;
        let place = table.entries.insert((serial, action));
        let first = due < self.next.load();
        if due < Moment::NEVER {
            table.heap.push(Reverse((due, serial, place)));
        }
        if first {
            self.next.store(due);
        }
        (TimerKey { place, serial }, first)
    }

    /// Cancels a timer. Gives whether it was still to come.
    pub(crate) fn cancel(&self, key: TimerKey) -> bool {
        let mut table = lock(&self.table);
        if table.entries.get(key.place).is_none_or(|entry| entry.0 != key.serial) {
            return false;
        }
        let action = table.entries.remove(key.place);
        if table.heap.len() > 64 && table.heap.len() > 2 * table.entries.len() {
            let Table { heap, entries, .. } = &mut *table;
            heap.retain(|Reverse((_, serial, place))| entries.get(*place).is_some_and(|entry| entry.0 == *serial));
        }
        drop(table);
        drop(action);
        true
    }

    /// Takes out one that is due at `now`.
    pub(crate) fn due(&self, now: Moment) -> Option<Action> {
        if self.next.load() > now {
            return None;
        }
        let mut table = lock(&self.table);
        let mut found = None;
        while let Some(&Reverse((due, serial, place))) = table.heap.peek() {
            let cancelled = table.entries.get(place).is_none_or(|entry| entry.0 != serial);
            if !cancelled && (found.is_some() || due > now) {
                break;
            }
            table.heap.pop();
            if !cancelled {
                found = Some(table.entries.remove(place).1);
            }
        }
        let next = table.heap.peek().map_or(Moment::NEVER, |Reverse((due, ..))| *due);
        self.next.store(next);
        found
    }

    /// How many are pending.
    pub(crate) fn len(&self) -> usize {
        lock(&self.table).entries.len()
    }

    /// Drops all that is pending.
    pub(crate) fn clear(&self) {
        let mut table = lock(&self.table);
        let entries = std::mem::take(&mut table.entries);
        table.heap.clear();
        self.next.store(Moment::NEVER);
        drop(table);
        // A timer may hold a user's message.
        entries.into_iter().for_each(|(_, entry)| drop(crate::panics::contain(|| drop(entry))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::Mutex as StdMutex;
    use std::time::Duration;

    #[test]
    fn what_is_due_fires_in_order_once_and_cancelled_timers_never() {
        let timers = Timers::new();
        let fired = Arc::new(StdMutex::new(Vec::new()));
        let start = Moment::now();
        let set = |milliseconds: u64| {
            let fired = fired.clone();
            let due = start.after(Duration::from_millis(milliseconds));
            timers.set(due, Box::new(move || fired.lock().unwrap().push(milliseconds)))
        };
        let (_, first) = set(30);
        assert!(first);
        assert!(!set(40).1);
        assert!(set(10).1);
        let (cancelled, _) = set(20);
        assert!(timers.cancel(cancelled));
        assert!(!timers.cancel(cancelled));
        let now = start.after(Duration::from_millis(35));
        while let Some(action) = timers.due(now) {
            action();
        }
        assert_eq!(*fired.lock().unwrap(), [10, 30]);
        assert_eq!((timers.len(), timers.next()), (1, start.after(Duration::from_millis(40))));
    }

    #[test]
    fn a_timer_for_never_is_kept_and_can_be_cancelled() {
        let timers = Timers::new();
        let (key, first) = timers.set(Moment::now().after(Duration::MAX), Box::new(|| ()));
        assert!(!first);
        assert!(timers.due(Moment::now().after(Duration::from_secs(1 << 30))).is_none());
        assert!(timers.cancel(key));
    }

    #[test]
    fn a_million_cancelled_timers_do_not_stay() {
        let timers = Timers::new();
        let due = Moment::now().after(Duration::from_secs(3600));
        for _ in 0..100_000 {
            let (key, _) = timers.set(due, Box::new(|| ()));
            timers.cancel(key);
        }
        assert!(lock(&timers.table).heap.len() <= 65);
    }
}
