//! The records of threads, and of the permits that they hold.
//!
//! * [`worker`]: the record of one thread, with its deque; [`threads`]: all records of a host;
//! * [`driven`]: the permits that have no threads of their own; [`driver_state`]: which thread drives such a permit;
//!   [`help`]: who is notified when it is called;
//! * [`running`]: the process that a thread runs, for other threads to see;
//! * [`pinned`]: the record of a pinned process's thread; [`timed`]: a step that was timed.

pub(crate) mod driven;
pub(crate) mod driver_state;
pub(crate) mod help;
pub(crate) mod pinned;
pub(crate) mod running;
pub(crate) mod threads;
pub(crate) mod timed;
pub(crate) mod worker;

use crate::slots::Token;
use crate::sync::SegQueue;

/// The right to run steps.
///
/// There are as many permits as steps may run at once, a number fixed when the host starts; `permits` decides which
/// thread holds which. A permit owns only what other threads may access at any time. A thread's deque, run-next slot
/// and counters belong to the thread (`crossbeam`'s owner half must not be used by two threads, and a stuck thread may
/// be inside a push), but all threads may empty the deque and the run-next slot, so that nothing waits behind a thread
/// that has lost its permit.
#[derive(Default)]
pub(crate) struct Permit {
    /// Processes woken from outside that last ran with this permit.
    pub(crate) inject: SegQueue<Token>,
}

impl Permit {
    /// Takes a process that was woken from outside. Checks first whether the queue is empty: `pop` costs a fence,
    /// twenty cycles per time slice, even then. A thread that pushes after the check announces its push.
    #[inline]
    pub(crate) fn take(&self) -> Option<Token> {
        if self.inject.is_empty() { None } else { self.inject.pop() }
    }
}
