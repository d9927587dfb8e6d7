//! Messages for processes whose mailboxes are full.

use super::Delivery;
use super::kept::{Kept, KeptMessage, Slow};
use crate::engine::Lane;
use crate::node::peer::Peer;
use postroom::__private::discard_panic;
use postroom::Pid;
use postroom::error::SendFailure;
use postroom::routing::ControlMessage;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Delivery {
    #[cfg(test)]
    pub(crate) fn limit_kept(&mut self, bytes: u64) {
        self.max_kept = bytes;
    }

    /// Delivers `what` to a process, after anything that is already stored for that process. Returns whether `what` is
    /// stored together with its credit.
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

    /// Like [`try_deliver`](Self::try_deliver), but contains panics: a panic costs the message that caused it, but not
    /// the others that are stored.
    fn try_again(&self, to: Pid, what: Kept) -> Option<Kept> {
        catch_unwind(AssertUnwindSafe(|| self.try_deliver(to, what))).unwrap_or_else(|panic| {
            discard_panic(panic);
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
