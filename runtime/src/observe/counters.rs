//! Counters that are always on: one writer each, so that counting costs a plain load and a plain store.

use crate::sync::{AtomicU64, Ordering};

/// A number that one thread at a time adds to and any thread may read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// For counters that several threads add to.
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

/// What a thread counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) steps: Counter,
    pub(crate) messages: Counter,
    /// Looks in the queues of others that found something.
    pub(crate) steals: Counter,
    /// Processes that came from another thread's deque or another worker's inject queue.
    pub(crate) stolen: Counter,
    pub(crate) from_global: Counter,
    pub(crate) from_inject: Counter,
    /// Visits to the far queues that found something there while nearer ones had work.
    pub(crate) fair: Counter,
    /// Looks everywhere, without a pause before.
    pub(crate) polls: Counter,
    /// Looks everywhere, after a pause.
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
