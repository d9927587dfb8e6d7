//! Which process a thread starts.

use super::host::Host;
use crate::pid::Pid;
use std::cell::Cell;

/// What a thread starts.
#[derive(Clone, Copy)]
pub(super) struct Starting {
    /// How many processes, each in the start of the one before.
    pub(super) depth: usize,
    /// The last of them, and its host.
    pub(super) process: Option<(&'static Host, Pid)>,
}

thread_local! {
    pub(super) static STARTING: Cell<Starting> = const { Cell::new(Starting { depth: 0, process: None }) };
}

/// The process that the calling thread starts, with its host.
pub(crate) fn starting() -> Option<(&'static Host, Pid)> {
    STARTING.try_with(Cell::get).ok()?.process
}
