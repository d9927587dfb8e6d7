//! Messages that are stored for processes whose mailboxes are full.

use crate::engine::Lane;
use crate::node::overflow::{SLOW_BYTES, SLOW_MESSAGES};
use crate::node::peer::Peer;
use postroom::routing::LinkMessage;
use postroom::{ExitReason, Package, Pid};
use std::collections::VecDeque;
use std::sync::Arc;

/// The limit on the messages of one peer that are stored for slow processes, in bytes. Beyond it, the credit of each
/// further stored message is held back until that message is delivered. The limit leaves room for everything in flight
/// when the first process falls behind, and for as much again.
pub(super) const MAX_KEPT: u64 = 64 << 20;

/// A message that waits for a process whose mailbox was full. Messages wait in order of arrival.
pub(super) enum Kept {
    Package(Package),
    Link { from: Pid, message: LinkMessage<ExitReason> },
    Stop,
}

pub(super) struct Slow {
    pub(super) peer: Arc<Peer>,
    pub(super) kept: VecDeque<KeptMessage>,
    /// The size of the stored messages, in bytes.
    pub(super) bytes: u64,
    /// Whether the peer knows that the process has fallen behind.
    is_told: bool,
    /// Whether a stop is stored. If so, no further stop is needed.
    pub(super) is_stopping: bool,
}

impl Slow {
    pub(super) fn new(peer: &Arc<Peer>) -> Self {
        Self { peer: Arc::clone(peer), kept: VecDeque::new(), bytes: 0, is_told: false, is_stopping: false }
    }

    /// Notifies the peer when too much is stored, and again when only half of that is left.
    pub(super) fn tell(&mut self, pid: Pid) {
        let is_above = |share| self.kept.len() >= SLOW_MESSAGES / share || self.bytes >= SLOW_BYTES / share as u64;
        let is_slow = is_above(if self.is_told { 2 } else { 1 });
        if is_slow != self.is_told {
            self.is_told = is_slow;
            self.peer.set_slow(pid, is_slow);
        }
    }
}

pub(super) struct KeptMessage {
    pub(super) what: Kept,
    pub(super) lane: Lane,
    pub(super) cost: u64,
    /// Whether the peer's credit for this message is still held back.
    pub(super) holds_credit: bool,
}
