//! Input that reaches a process outside its data lane: completions, wakes and answers. For requests, see
//! [`requests`](super::requests).

use super::{Slot, Token};
use crate::call::call_id;
use crate::mailbox::lanes::Claim;
use crate::mailbox::node::{Envelope, NodeBox, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::sync::simulated;
use std::ptr;

impl Slot {
    /// Delivers the completion with this tag to the process of `generation`. A late completion is counted and
    /// discarded.
    pub(crate) fn complete(&'static self, generation: u64, tag: u64, payload: Payload) {
        simulated::note_sent(self.index());
        let word = ptr::without_provenance_mut(tag as usize);
        let envelope = Envelope { kind: NodeKind::Completed, generation, word, payload: Some(payload) };
        if !self.is_living(generation) {
            return self.late(envelope);
        }
        self.settle(self.lanes.push_control(node_pool::node(envelope)));
    }

    /// Wakes the process like [`wake`](Self::wake) and consumes a waker: `give_back` subtracts it from the count of
    /// wakers and returns whether it was the last. `give_back` is called after the wake is visible, and before this
    /// thread schedules the process.
    pub(crate) fn wake_and_give_back(&'static self, generation: u64, give_back: impl FnOnce() -> bool) {
        if !self.is_living(generation) {
            give_back();
            return;
        }
        let claim = self.lanes.wake();
        let was_last = give_back();
        match claim {
            // The process may have run for this wake already, while the waker was still counted, and may be waiting
            // now.
            Claim::Nothing if was_last => self.wake(generation),
            claim => self.settle(claim),
        }
    }

    /// Wakes the process of `generation` because one of its futures can make progress. Spurious wakes are harmless.
    pub(crate) fn wake(&'static self, generation: u64) {
        if self.is_living(generation) {
            self.settle(self.lanes.wake());
        }
    }

    /// Makes a live process take another step before it idles. If it waits for control only, returns true instead.
    pub(crate) fn wake_unless_waiting(&'static self, generation: u64) -> bool {
        debug_assert!(generation != 0, "that of a process");
        let Some(claim) = self.lanes.wake_unless_waiting() else { return true };
        self.settle(claim);
        false
    }

    /// Pushes an answer into the control lane.
    #[inline]
    pub(crate) fn push_answer(&'static self, node: NodeBox) {
        self.settle(self.lanes.push_control(node));
    }

    /// Disposes of an answer for a process that has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn answered_late(&self, mut node: NodeBox) {
        let envelope = node.take();
        call_id::close(node.next());
        node_pool::recycle(node);
        self.late(envelope);
    }

    /// Acts on the claim of a push or a wake: if it took the token, schedules the process or empties the vacant slot.
    #[inline]
    pub(super) fn settle(&'static self, claim: Claim) {
        match claim {
            Claim::Nothing => self.run_if_kept(),
            Claim::Process => self.schedule(),
            Claim::Vacant => drop(Token(self).acquire().empty_and_park(None)),
        }
    }
}
