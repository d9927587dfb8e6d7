//! Children of supervisors, in both directions: those that the peer runs for this node, and those that this node runs
//! for the peer.
//!
//! A child belongs to the session in which it was started. When the session ends, each side acts on its own: the
//! supervisors' side reports to them that the node is lost, and the other side kills the processes. The lock of the
//! session decides whether a process was started before or after the end, so no process is left without a supervisor:
//!
//! 1. When the process has been started, [`Peer::adopt`] records it and queues the answer, unless the session is over.
//!    In that case the process is killed.
//! 2. The end of the session takes all recorded processes, and they are killed ([`Peer::take_charges`]).
//!
//! A process may end before its start is answered. Its end is then stored, and sent after the answer. Both are sent
//! in the data lane, after the messages of the process.

use super::admission::content;
use super::{Peer, Phase};
use crate::codec::{encode_exit_reason, kept};
use crate::engine::Lane;
use crate::envelope::Envelope;
use crate::starts::{StartError, Started};
use postroom::supervision::ChildStart;
use postroom::{ExitReason, Pid};
use std::mem;
use std::sync::Arc;

/// Maximum length of the reported name of the message in which a child failed, in bytes.
const MAX_HANDLING: usize = 256;

impl Peer {
    /// Requests the start of a child from the peer, which is named `name`.
    pub(crate) fn start_child(&self, name: &Arc<str>, start: ChildStart) {
        let (process, entry, inputs, report) = start.take_apart();
        let unreachable = || StartError::Unreachable { node: name.to_string() };
        let Some(agreement) = self.agreement() else { return report.failed(unreachable()) };
        let encoded = match agreement.encode_inputs(process, &entry, inputs) {
            Ok(encoded) => encoded,
            Err(error) => return report.failed(StartError::from(error)),
        };
        let mut state = self.lock();
        let (number, anyone) = (state.number(), state.anyone);
        let envelope = Envelope::StartChild { number, content: content(encoded) };
        match state.queue(Lane::Control, anyone, &envelope) {
            Ok(()) => {
                state.children.starting.insert(number, (report, Arc::clone(name)));
                self.announce(state);
            }
            Err(refusal) => {
                drop(state);
                let reason = refusal.into_text();
                report.failed(StartError::Refused { node: name.to_string(), reason });
            }
        }
    }

    /// Handles the peer's answer to the start of a child.
    pub(crate) fn child_started(&self, number: u64, started: Started) {
        let Some((report, name)) = self.lock().children.starting.remove(&number) else { return };
        // Outside the lock, since a report may kill the child, which needs the lock.
        match started {
            Ok(pid) => {
                let report = report.started(pid);
                self.lock().children.running.insert(number, report);
            }
            Err(why) => report.failed(why.into_error(name.to_string())),
        }
    }

    /// Reports the end of a child on the peer.
    pub(crate) fn child_ended(&self, number: u64, reason: ExitReason, handling: &str) {
        let report = self.lock().children.running.remove(&number);
        if let Some(report) = report {
            report.ended_while(reason, (!handling.is_empty()).then(|| kept(handling)));
        }
    }

    /// Returns whether supervisors of this node have children on the peer.
    pub(crate) fn has_children(&self) -> bool {
        let state = self.lock();
        !state.children.starting.is_empty() || !state.children.running.is_empty()
    }

    /// Reports the loss of all children to the supervisors of this node: the session is over.
    pub(super) fn lose_children(&self) {
        let mut state = self.lock();
        let (starting, running) = (mem::take(&mut state.children.starting), mem::take(&mut state.children.running));
        drop(state);
        for (report, name) in starting.into_values() {
            let reason = "it was lost before it answered; what it has started ends with the session".to_owned();
            report.failed(StartError::Refused { node: name.to_string(), reason });
        }
        running.into_values().for_each(|report| report.ended(ExitReason::NodeLost));
    }

    /// Records that the peer requests a child. Returns false if the number is not larger than all earlier ones. Without
    /// this check, two children could have the same number.
    pub(crate) fn is_next_child(&self, number: u64) -> bool {
        let mut state = self.lock();
        let is_next = number > state.children.last_asked;
        state.children.last_asked = number.max(state.children.last_asked);
        is_next
    }

    /// Answers the start of a child for the peer. Returns false if the session is over, in which case the process has
    /// to be killed.
    pub(crate) fn adopt(&self, number: u64, started: Started) -> bool {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Over) {
            return false;
        }
        let was_idle = state.is_idle();
        let ended = state.children.early.remove(&number);
        let answer = match started {
            Ok(pid) => {
                if ended.is_none() {
                    state.children.charges.insert(number, pid);
                    state.children.charged.insert(pid);
                }
                Envelope::Started { number, pid }
            }
            Err(why) => why.into_envelope(number),
        };
        state.must_queue(Lane::Data, answer);
        if let Some(ended) = ended {
            state.must_queue(Lane::Data, ended);
        }
        self.transmit_queued(state, was_idle);
        true
    }

    /// Reports the end of a process that was started for a supervisor of the peer, with the type of the message that it
    /// was handling, if any.
    pub(crate) fn charge_ended(&self, number: u64, reason: &ExitReason, handling: Option<&str>) {
        let handling = handling.unwrap_or_default();
        let handling = handling[..handling.floor_char_boundary(MAX_HANDLING)].to_owned();
        // Outside the lock: the text of an error is user code.
        let ended = Envelope::ChildEnded { number, handling, reason: encode_exit_reason(reason) };
        let mut state = self.lock();
        if matches!(state.phase, Phase::Over) {
            return;
        }
        let Some(pid) = state.children.charges.remove(&number) else {
            state.children.early.insert(number, ended);
            return;
        };
        state.children.charged.remove(&pid);
        let was_idle = state.is_idle();
        state.must_queue(Lane::Data, ended);
        self.transmit_queued(state, was_idle);
    }

    /// Returns whether the process runs here as a child of a supervisor of the peer.
    pub(crate) fn is_charge(&self, pid: Pid) -> bool {
        self.lock().children.charged.contains(&pid)
    }

    /// Returns the processes that were started for supervisors of the peer: the session is over.
    pub(crate) fn take_charges(&self) -> Vec<Pid> {
        let mut state = self.lock();
        state.children.early.clear();
        let charges = mem::take(&mut state.children.charges);
        drop(state);
        charges.into_values().collect()
    }
}
