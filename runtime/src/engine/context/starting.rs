//! Which process a thread starts.

use crate::engine::host::Scheduler;
use crate::pid::Pid;
use std::cell::Cell;

/// What a thread starts.
#[derive(Clone, Copy)]
pub(crate) struct Starting {
    /// How many processes, each in the start of the one before.
    pub(crate) depth: usize,
    /// The last of them, and its host.
    pub(crate) process: Option<(&'static Scheduler, Pid)>,
}

thread_local! {
    pub(crate) static STARTING: Cell<Starting> = const { Cell::new(Starting { depth: 0, process: None }) };
}

/// The process that the calling thread starts, with its host.
pub(crate) fn starting() -> Option<(&'static Scheduler, Pid)> {
    STARTING.try_with(Cell::get).ok()?.process
}
