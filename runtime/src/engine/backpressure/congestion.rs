//! Decides whether a message to a congested mailbox is admitted, and notes which mailbox a step congests.

use super::state::{Congestion, SIDES, bound_of, is_over, side_of};
use super::suspend::{ResumeReason, end_suspension, wait_in_step};
use crate::engine::context::thread::with_current;
use crate::mailbox::lanes::LENGTH_CHECK;
use crate::mailbox::node::NodeBox;
use crate::mailbox::node_pool;
use crate::process::slice::BUDGET;
use crate::slots::{Admission, Slot};
use crate::util::defer::defer;
use std::cell::Cell;
use std::ptr;

/// The behaviour of a send to a full mailbox.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendMode {
    /// The sending process may be suspended.
    Normal,
    /// A delayed send. It does not wait for room; a full mailbox that drops messages also drops one for this send.
    Delayed,
    /// The message is returned if its sender would have to wait.
    Try,
}

thread_local! {
    /// The mailbox that the step of this thread has congested.
    static CONGESTED: Cell<Option<Congestion>> = const { Cell::new(None) };
    static MODE: Cell<SendMode> = const { Cell::new(SendMode::Normal) };
}

pub(crate) fn with_mode<R>(mode: SendMode, send: impl FnOnce() -> R) -> R {
    // Forgets which mailbox this thread is known to congest: that mailbox would otherwise not be checked again.
    let (outer, known_congested) = (MODE.replace(mode), node_pool::set_known_congested(0));
    let _restore = defer(|| {
        MODE.set(outer);
        node_pool::set_known_congested(known_congested);
    });
    send()
}

pub(crate) fn mode() -> SendMode {
    MODE.get()
}

/// Takes the mailbox that the process has congested in the step that has just ended.
pub(crate) fn take() -> Option<Congestion> {
    node_pool::set_known_congested(0);
    CONGESTED.take()
}

#[derive(Clone, Copy)]
pub(crate) enum Sender {
    /// The process whose step this thread runs.
    Process(&'static Slot),
    /// An exiting process, which does not wait.
    Ending,
    /// A worker between two steps, which must not wait.
    Between,
    /// Code outside of processes.
    Outside,
}

pub(crate) fn sender() -> Sender {
    if crate::call::caller::is_ending() {
        return Sender::Ending;
    }
    match with_current(|context| context.map(|context| context.thread.running())) {
        // The process has ended and left the gate; its hooks are running.
        Some(Some(slot)) if slot.living().is_none() => Sender::Ending,
        Some(Some(slot)) => Sender::Process(slot),
        Some(None) => Sender::Between,
        None => Sender::Outside,
    }
}

/// Performs backpressure:W1 with CONGESTED already set: decides whether to admit a message to a mailbox with a soft
/// bound.
pub(crate) fn admit(slot: &'static Slot, node: NodeBox) -> Admission {
    let refuse = match sender() {
        Sender::Ending => false,
        Sender::Process(own) if ptr::eq(own, slot) => false,
        Sender::Process(own) if MODE.get() == SendMode::Normal => {
            if is_over(slot) {
                note_congestion(own, slot);
            } else {
                // CONGESTED is set because processes wait for room. Whether this process exceeds the bound in its time
                // slice is checked with every 128th message, as for any mailbox.
                node_pool::set_known_congested(slot.address());
            }
            false
        }
        _ if crate::sync::simulated::is_full() => true,
        Sender::Process(_) | Sender::Between | Sender::Outside => is_over(slot),
    };
    if refuse { Admission::refuse(node) } else { Admission::Accepted(node) }
}

/// Performs backpressure:W1 for every 128th message of a lane.
pub(crate) fn check_length(slot: &'static Slot) {
    // A hard bound is checked with each message.
    if slot.is_hard_bounded() || !is_over(slot) {
        return;
    }
    side_of(slot).lock().note_known(slot.lanes.last_sequence());
    slot.note_congested(true);
    if slot.is_suspended() {
        // A suspended process whose own mailbox is too full must run.
        end_suspension(slot, ResumeReason::Overfull);
    }
    if let Sender::Process(own) = sender()
        && !ptr::eq(own, slot)
        && MODE.get() == SendMode::Normal
    {
        note_congestion(own, slot);
    }
}

/// Returns the number of a recent message in a congested mailbox; zero if it is unknown.
pub(crate) fn known(slot: &'static Slot) -> u64 {
    if slot.is_hard_bounded() { 0 } else { SIDES.get(slot.index()).map_or(0, |side| side.lock().known) }
}

/// Records that the process `own` congests `slot`. The amount that its step has sent since then is measured by the
/// budget that the step has spent: the messages between two length checks may come from any sender, and counting them
/// would make the step wait because of what others send.
fn note_congestion(own: &'static Slot, slot: &'static Slot) {
    let (Some(bound), Some(generation)) = (bound_of(slot), slot.living()) else { return };
    let before = CONGESTED.get();
    if before.is_none() {
        // Prevents the step from being treated as plain.
        node_pool::spend(BUDGET);
    }
    let mut since = match before {
        Some(Congestion::Mailbox { since, .. }) => since,
        Some(Congestion::Abroad) | None => node_pool::spent(),
    };
    if node_pool::spent() - since > bound.max(LENGTH_CHECK) && wait_in_step(own, slot, generation) {
        since = node_pool::spent();
    }
    CONGESTED.set(Some(Congestion::Mailbox { on: slot, generation, since }));
    node_pool::set_known_congested(slot.address());
}

/// Records that the step has sent too much to another node.
pub(super) fn note_congestion_abroad() {
    if CONGESTED.replace(Some(Congestion::Abroad)).is_none() {
        // As in `note_congestion`, prevents the step from being treated as plain.
        node_pool::spend(BUDGET);
    }
}
