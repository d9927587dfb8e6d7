//! A worker is the right to run steps, not a thread: a thread must hold one to run a step.
//!
//! There are as many workers as steps may run at once, fixed when the host starts. What belongs to a worker is what
//! others may always reach: its inject queue and its counters. A thread's deque and run-next slot belong to the thread
//! (`crossbeam`'s owner half must not be used by two threads, and a stuck thread may be inside a push), and everyone may
//! empty them, so that nothing waits behind a thread that has lost its worker.

use super::counters::Counters;
use crate::sync::{AtomicUsize, Ordering, SegQueue};
use crate::table::Token;

/// A worker that no thread holds.
const NOBODY: usize = usize::MAX;

/// See the module.
pub(crate) struct Worker {
    /// Processes woken from outside that ran here last.
    pub(crate) inject: SegQueue<Token>,
    pub(crate) counters: Counters,
    holder: AtomicUsize,
}

impl Worker {
    pub(crate) fn new() -> Self {
        Self { inject: SegQueue::new(), counters: Counters::default(), holder: AtomicUsize::new(NOBODY) }
    }

    /// Takes the worker for `thread`, if nobody holds it.
    pub(crate) fn take(&self, thread: usize) -> bool {
        self.holder.compare_exchange(NOBODY, thread, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Gives the worker back.
    pub(crate) fn give_back(&self) {
        self.holder.store(NOBODY, Ordering::Release);
    }

    /// The thread that holds the worker.
    pub(crate) fn holder(&self) -> Option<usize> {
        Some(self.holder.load(Ordering::Relaxed)).filter(|&holder| holder != NOBODY)
    }
}
