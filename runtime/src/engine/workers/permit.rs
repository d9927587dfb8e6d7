//! The permit: the right to run steps. A thread must hold one to run a step.
//!
//! There are as many permits as steps may run at once, fixed when the host starts; `permits` decides who holds which. A
//! permit owns only what other threads may always reach: its inject queue. A thread's deque, run-next slot and counters
//! belong to the thread (`crossbeam`'s owner half must not be used by two threads, and a stuck thread may be inside a
//! push), and all threads may empty them, so that nothing waits behind a thread that has lost its permit.

use crate::slots::Token;
use crate::sync::SegQueue;

/// A permit's queue.
pub(crate) struct Permit {
    /// Processes woken from outside that last ran with this permit.
    pub(crate) inject: SegQueue<Token>,
}

impl Permit {
    pub(crate) fn new() -> Self {
        Self { inject: SegQueue::new() }
    }
}
