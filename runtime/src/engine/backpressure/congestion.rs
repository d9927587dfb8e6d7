//! Senders to congested mailboxes, and the consequences for them.

use super::state::Congestion;
use super::state::{bound_of, is_over};
use super::suspend;
use crate::engine::context::local::with_current;
use crate::mailbox::lanes::LENGTH_CHECK;
use crate::mailbox::node::NodeBox;
use crate::mailbox::node_pool;
use crate::process::slice::BUDGET;
use crate::slots::{Admission, Slot};
use crate::util::defer::defer;
use std::cell::Cell;
use std::ptr;

/// The manner of a send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The sending process may be suspended.
    Send,
    /// A delayed send: it does not wait for room, but the mailbox may drop messages for it.
    Late,
    /// The message is returned if it would have to wait.
    Try,
}

thread_local! {
    static CONGESTS: Cell<Option<Congestion>> = const { Cell::new(None) };
    static MANNER: Cell<Manner> = const { Cell::new(Manner::Send) };
}

/// Runs `send` in that manner.
pub(crate) fn in_manner<R>(manner: Manner, send: impl FnOnce() -> R) -> R {
    // A mailbox that this thread is known to congest is not checked again otherwise.
    let (outer, known_congested) = (MANNER.replace(manner), node_pool::set_known_congested(0));
    let _restore = defer(|| {
        MANNER.set(outer);
        node_pool::set_known_congested(known_congested);
    });
    send()
}

/// Takes the mailbox that the process has congested in the step that is over.
pub(crate) fn take() -> Option<Congestion> {
    node_pool::set_known_congested(0);
    CONGESTS.take()
}

/// The sender.
#[derive(Clone, Copy)]
pub(crate) enum Sender {
    /// The process whose step this thread runs.
    Process(&'static Slot),
    /// An exiting process, which does not wait.
    Ending,
    /// A permit between two steps, which must not wait.
    Between,
    /// Code outside of processes.
    Outside,
}

pub(crate) fn sender() -> Sender {
    if crate::call::caller::is_ending() {
        return Sender::Ending;
    }
    match with_current(|context| context.map(|context| context.thread.running())) {
        // One that has ended is counted out, and its hooks are running.
        Some(Some(slot)) if slot.living().is_none() => Sender::Ending,
        Some(Some(slot)) => Sender::Process(slot),
        Some(None) => Sender::Between,
        None => Sender::Outside,
    }
}

/// Returns the manner of this thread's sends.
pub(crate) fn manner() -> Manner {
    MANNER.get()
}

/// Decides about a message for a congested mailbox with a soft bound.
pub(crate) fn admit(slot: &'static Slot, node: NodeBox) -> Admission {
    let refuse = match sender() {
        Sender::Ending => false,
        Sender::Process(own) if ptr::eq(own, slot) => false,
        Sender::Process(own) if MANNER.get() == Manner::Send => {
            if is_over(slot) {
                note_congestion(own, slot);
            } else {
                // Marked for those that wait for room there. Whether it exceeds its bound in this time slice is checked
                // with every 128th message, as for any mailbox.
                node_pool::set_known_congested(slot.address());
            }
            false
        }
        #[cfg(feature = "test")]
        _ if crate::sync::simulated::is_full() => true,
        Sender::Process(_) | Sender::Between | Sender::Outside => is_over(slot),
    };
    if refuse { Admission::refuse(node) } else { Admission::Accepted(node) }
}

/// Notes that this thread's message completes a batch in a mailbox that is over its bound.
pub(crate) fn note(slot: &'static Slot) {
    if let Sender::Process(own) = sender()
        && !ptr::eq(own, slot)
        && MANNER.get() == Manner::Send
    {
        note_congestion(own, slot);
    }
}

/// Notes that the process `own` congests `slot`. How much its step has sent since is measured by what the step has
/// spent: the messages of a batch may be from any sender, and counting them would make it answer for others, and wait
/// in its step for them.
fn note_congestion(own: &'static Slot, slot: &'static Slot) {
    let (Some(bound), Some(generation)) = (bound_of(slot), slot.living()) else { return };
    let before = CONGESTS.get();
    if before.is_none() {
        // Prevents the step from being treated as plain.
        node_pool::spend(BUDGET);
    }
    let mut since = before.map_or_else(node_pool::spent, |note_congestion| note_congestion.since);
    if node_pool::spent() - since > bound.max(LENGTH_CHECK) && suspend::wait_in_step(own, slot, generation) {
        since = node_pool::spent();
    }
    CONGESTS.set(Some(Congestion { on: slot, generation, since }));
    node_pool::set_known_congested(slot.address());
}
