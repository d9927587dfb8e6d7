//! The process that a thread starts.

use crate::engine::host::Scheduler;
use crate::pid::Pid;
use std::cell::Cell;

/// A thread's starts.
#[derive(Clone, Copy)]
pub(crate) struct Starting {
    /// Their depth: each is nested in the start of the one before.
    pub(crate) depth: usize,
    /// The innermost process, and its host.
    pub(crate) process: Option<(&'static Scheduler, Pid)>,
}

thread_local! {
    pub(crate) static STARTING: Cell<Starting> = const { Cell::new(Starting { depth: 0, process: None }) };
}

/// Returns the process that the calling thread starts, with its host.
pub(crate) fn starting() -> Option<(&'static Scheduler, Pid)> {
    STARTING.try_with(Cell::get).ok()?.process
}
