//! A permit is the right to run steps, not a thread: a thread must hold one to run a step.
//!
//! There are as many permits as steps may run at once, fixed when the host starts; who holds which is in `permits`.
//! What belongs to a permit is what others may always reach: its inject queue. A thread's deque, run-next slot and
//! counters belong to the thread (`crossbeam`'s owner half must not be used by two threads, and a stuck thread may be
//! inside a push), and everyone may empty them, so that nothing waits behind a thread that has lost its permit.

use crate::slots::Token;
use crate::sync::SegQueue;

/// See the module.
pub(crate) struct Permit {
    /// Processes woken from outside that ran here last.
    pub(crate) inject: SegQueue<Token>,
}

impl Permit {
    pub(crate) fn new() -> Self {
        Self { inject: SegQueue::new() }
    }
}
