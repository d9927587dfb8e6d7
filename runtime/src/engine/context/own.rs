//! The process that a thread runs or starts, and access to its slot.

use super::thread::with_current;
use crate::engine::host::Scheduler;
use crate::exit::ExitReason;
use crate::links::message::{LinkEndpoint, SentLinkMessage};
use crate::links::protocol::{LinkMessage, Links};
use crate::mailbox::node_pool;
use crate::pid::{Pid, Resident};
use crate::slots::{ColdState, Slot, TABLE};
use std::cell::Cell;
use std::ptr;

/// The starts of processes that are in progress on a thread.
#[derive(Clone, Copy)]
pub(crate) struct Starting {
    /// Number of starts, each nested in the previous one.
    pub(crate) depth: usize,
    /// The process of the innermost start, and its host.
    pub(crate) process: Option<(&'static Scheduler, Pid)>,
}

thread_local! {
    pub(crate) static STARTING: Cell<Starting> = const { Cell::new(Starting { depth: 0, process: None }) };
}

/// Returns the process that the calling thread is starting, and its host.
pub(crate) fn starting() -> Option<(&'static Scheduler, Pid)> {
    STARTING.try_with(Cell::get).ok()?.process
}

/// Calls `look` with the cold state of the process that the calling thread runs or starts. Returns `None` if there is
/// no such process, or if it is exiting. `look` must not run foreign code.
pub(crate) fn with_own<R>(look: impl FnOnce(&'static Slot, Pid, &mut ColdState) -> R) -> Option<R> {
    if crate::call::caller::is_ending() {
        return None;
    }
    let (slot, pid) = match starting() {
        Some((_, pid)) => (TABLE.living(pid)?, pid),
        None => {
            let slot = with_current(|context| context?.thread.running())?;
            slot.living()?;
            (slot, slot.resident()?)
        }
    };
    // SAFETY: while a step or a start runs, its thread has the token (see `running`) and no reference to the cold
    // state, and `look` neither calls this again nor ends the step.
    Some(look(slot, pid, unsafe { slot.own_cold_state() }))
}

#[inline]
pub(crate) fn runs(slot: &'static Slot, generation: u64) -> bool {
    let running = with_current(|context| context?.thread.running());
    running.is_some_and(|running| ptr::eq(running, slot)) && slot.is_living(generation)
}

pub(crate) fn is_slice_over() -> bool {
    with_current(|context| context.is_some_and(|context| context.thread.slice.is_over(node_pool::spent())))
}

impl ColdState {
    pub(crate) fn links(&mut self) -> &mut Links<Pid> {
        self.links.get_or_insert_default()
    }
}

/// Sends a link message to `to`. If that process has ended or cannot be reached, the message is answered on its behalf.
pub(crate) fn send_link_message(from: (&'static Slot, Pid), to: Pid, message: LinkMessage<ExitReason>) {
    let (back, from) = from;
    if to.node() != from.node() {
        return crate::routing::remote_links::send_link(from, to, message);
    }
    let sent = SentLinkMessage::new(from, to, Some(back), message);
    if to.is_alias() {
        return crate::routing::alias::post_tie(to, sent);
    }
    match TABLE.slot(to.slot()) {
        Some(slot) => slot.post(to, sent),
        None => drop(sent),
    }
}
