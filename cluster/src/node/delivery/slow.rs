//! Messages for processes whose mailboxes are full.

use super::Delivery;
use crate::engine::Lane;
use crate::node::overflow::{SLOW_BYTES, SLOW_MESSAGES};
use crate::node::peer::Peer;
use postroom::error::SendFailure;
use postroom::routing::{ControlMessage, LinkMessage};
use postroom::{ExitReason, Package, Pid};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The size of the messages of one peer that are stored for slow processes, beyond which the credit for further stored
/// messages is held back until they are delivered. Leaves room for everything in flight when the first process falls
/// behind, and for as much again.
pub(super) const MAX_KEPT: u64 = 64 << 20;

/// A message that waits for a process whose mailbox was full. Messages wait in order of arrival.
pub(super) enum Kept {
    Package(Package),
    Link { from: Pid, message: LinkMessage<ExitReason> },
    Stop,
}

pub(super) struct Slow {
    peer: Arc<Peer>,
    pub(super) kept: VecDeque<KeptMessage>,
    /// The size of the stored messages, in bytes.
    bytes: u64,
    /// Whether the peer knows that the process has fallen behind.
    is_told: bool,
    /// Whether a stop is stored, in which case no other is needed.
    is_stopping: bool,
}

impl Slow {
    fn new(peer: &Arc<Peer>) -> Self {
        Self { peer: Arc::clone(peer), kept: VecDeque::new(), bytes: 0, is_told: false, is_stopping: false }
    }

    /// Notifies the peer when too much is stored, and again when only half of that is left.
    fn tell(&mut self, pid: Pid) {
        let is_above = |share| self.kept.len() >= SLOW_MESSAGES / share || self.bytes >= SLOW_BYTES / share as u64;
        let is_slow = is_above(if self.is_told { 2 } else { 1 });
        if is_slow != self.is_told {
            self.is_told = is_slow;
            self.peer.set_slow(pid, is_slow);
        }
    }
}

pub(super) struct KeptMessage {
    what: Kept,
    lane: Lane,
    cost: u64,
    /// Whether its credit has not been returned yet.
    holds_credit: bool,
}

impl Delivery {
    #[cfg(test)]
    pub(crate) fn limit_kept(&mut self, bytes: u64) {
        self.max_kept = bytes;
    }

    /// Delivers `what` to a process, after anything that is already stored for that process. Returns whether `what`
    /// is stored, and its credit with it.
    pub(super) fn deliver(&mut self, peer: &Arc<Peer>, to: Pid, what: Kept, lane: Lane, cost: u64) -> bool {
        let key = (to, peer.node());
        let back = match self.slow.contains_key(&key) {
            true => Some(what),
            false => self.try_deliver(to, what),
        };
        let Some(what) = back else { return false };
        let slow = self.slow.entry(key).or_insert_with(|| Slow::new(peer));
        if matches!(what, Kept::Stop) && std::mem::replace(&mut slow.is_stopping, true) {
            return false;
        }
        let kept = self.kept.entry(peer.node()).or_default();
        *kept += cost;
        let holds_credit = *kept > self.max_kept;
        slow.kept.push_back(KeptMessage { what, lane, cost, holds_credit });
        slow.bytes += cost;
        slow.tell(to);
        holds_credit
    }

    /// Delivers `what` to a process. Returns `what` if the mailbox is full.
    fn try_deliver(&self, to: Pid, what: Kept) -> Option<Kept> {
        match what {
            Kept::Package(package) => match self.node.try_deliver(package) {
                Ok(()) => None,
                Err(refused) if matches!(refused.reason, SendFailure::Full(_)) => Some(Kept::Package(refused.package)),
                Err(refused) => {
                    self.counters.undelivered.fetch_add(1, Ordering::Relaxed);
                    let (_, _, answerer) = refused.package.take_apart();
                    answerer.answer(Err(refused.reason.into()));
                    None
                }
            },
            Kept::Link { from, message } => {
                self.node.post_link(from, to, message);
                None
            }
            Kept::Stop => {
                self.node.control(to, ControlMessage::Stop);
                None
            }
        }
    }

    /// Like [`try_deliver`](Self::try_deliver), but contains panics: a panic costs its own message, and not the
    /// others that are stored.
    fn try_again(&self, to: Pid, what: Kept) -> Option<Kept> {
        catch_unwind(AssertUnwindSafe(|| self.try_deliver(to, what))).unwrap_or_else(|panic| {
            // Dropping the payload may panic again.
            std::mem::forget(panic);
            self.counters.undecodable.fetch_add(1, Ordering::Relaxed);
            None
        })
    }

    /// Tries again to deliver the stored messages.
    pub(super) fn retry(&mut self) {
        let keys: Vec<_> = self.slow.keys().copied().collect();
        for key in keys {
            let Some(mut slow) = self.slow.remove(&key) else { continue };
            while let Some(mut waiting) = slow.kept.pop_front() {
                if let Some(what) = self.try_again(key.0, waiting.what) {
                    waiting.what = what;
                    slow.kept.push_front(waiting);
                    break;
                }
                slow.bytes -= waiting.cost;
                if let Some(kept) = self.kept.get_mut(&key.1) {
                    *kept = kept.saturating_sub(waiting.cost);
                }
                if waiting.holds_credit {
                    slow.peer.release(waiting.lane, waiting.cost);
                }
            }
            slow.tell(key.0);
            if !slow.kept.is_empty() {
                self.slow.insert(key, slow);
            }
        }
    }
}
