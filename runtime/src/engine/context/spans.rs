//! How the spans of messages describe processes (feature `spans`).

use super::thread::{current_pid, with_current};
use crate::observe::spans::{ProcessLookup, set_lookup};
use crate::pid::{Pid, Resident};
use crate::slots::{Slot, TABLE};
use std::sync::Arc;

/// Makes spans describe processes from now on.
pub(crate) fn begin() {
    set_lookup(&LocalLookup);
}

struct LocalLookup;

impl ProcessLookup for LocalLookup {
    fn running(&self) -> Option<Pid> {
        current_pid()
    }

    fn describe(&self, pid: Pid) -> (Option<&'static str>, Option<Arc<str>>) {
        let Some(slot) = TABLE.last(pid) else { return (None, None) };
        let process = slot.metadata.names().map(|(process, _)| process);
        (process, label(slot, pid))
    }
}

/// Returns the label of the process. If the calling thread runs the process, the host's labels are searched only if the
/// process has a label.
fn label(slot: &'static Slot, pid: Pid) -> Option<Arc<str>> {
    let running = with_current(|context| context?.thread.running());
    let is_own = running.is_some_and(|running| std::ptr::eq(running, slot) && slot.resident() == Some(pid));
    // SAFETY: while a step runs, its thread has the token, and no reference to the cold state (see `own::with_own`).
    if is_own && !unsafe { slot.is_labelled() } {
        return None;
    }
    slot.owner()?.host.label_of(pid)
}
