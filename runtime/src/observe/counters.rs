//! Counters that are always on. Each has one writer, so counting costs a plain load and store.

use crate::sync::{AtomicU64, Ordering};

/// A number with one writer at a time and any number of readers.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Adds to a counter with several writers.
    pub(crate) fn add_shared(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) steps: Counter,
    pub(crate) messages: Counter,
    /// Successful attempts to steal from the queues of others.
    pub(crate) steals: Counter,
    /// Processes taken from another thread's deque or another worker's inject queue.
    pub(crate) stolen: Counter,
    pub(crate) from_global: Counter,
    pub(crate) from_inject: Counter,
    /// Visits to the far queues, ahead of the nearer ones for fairness, that found work.
    pub(crate) fair: Counter,
    /// Searches of all queues without a preceding pause.
    pub(crate) polls: Counter,
    /// Searches of all queues after a pause.
    pub(crate) spins: Counter,
    pub(crate) parks: Counter,
}

impl Counters {
    pub(crate) fn reset(&self) {
        let Self { steps, messages, steals, stolen, from_global, from_inject, fair, polls, spins, parks } = self;
        [steps, messages, steals, stolen, from_global, from_inject, fair, polls, spins, parks]
            .into_iter()
            .for_each(Counter::reset);
    }
}
