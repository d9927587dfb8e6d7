//! What reaches a process outside its data lane: completions, wakes, and answers; [requests](super::requests) apart.

use super::{Slot, Token};
use crate::call::call_id;
use crate::mailbox::lanes::Claim;
use crate::mailbox::node::{Envelope, NodeBox, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use std::ptr;

impl Slot {
    /// Completes what the process of `generation` has under this tag; a late completion is counted and discarded.
    pub(crate) fn complete(&'static self, generation: u64, tag: u64, payload: Payload) {
        #[cfg(feature = "test")]
        if let Some(simulator) = crate::sync::simulated::here() {
            simulator.sent(self.index());
        }
        let word = ptr::without_provenance_mut(tag as usize);
        let envelope = Envelope { kind: NodeKind::Completed, generation, word, payload: Some(payload) };
        if !self.is_living(generation) {
            return self.late(envelope);
        }
        self.settle(self.lanes.push_control(node_pool::node(envelope)));
    }

    /// Wakes the process like [`wake`](Self::wake) and consumes a waker: `give_back` counts it out, and returns whether
    /// it was the last. It is counted out after the wake is visible, and before the process runs for it.
    pub(crate) fn wake_and_give_back(&'static self, generation: u64, give_back: impl FnOnce() -> bool) {
        if !self.is_living(generation) {
            give_back();
            return;
        }
        let claim = self.lanes.wake();
        let was_last = give_back();
        match claim {
            // The process may have run for this wake already, counted the waker, and be waiting now.
            Claim::Nothing if was_last => self.wake(generation),
            claim => self.settle(claim),
        }
    }

    /// Notes that a future of the process of `generation` can make progress. Spurious wakes are harmless.
    pub(crate) fn wake(&'static self, generation: u64) {
        if self.is_living(generation) {
            self.settle(self.lanes.wake());
        }
    }

    /// Makes a live process take another step before it idles, unless it waits for control only: then returns true.
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

    /// Uses a token that may have been taken for its purpose.
    #[inline]
    pub(super) fn settle(&'static self, claim: Claim) {
        match claim {
            Claim::Nothing => self.run_if_kept(),
            Claim::Process => self.schedule(),
            Claim::Vacant => drop(Token(self).acquire().empty_and_park(None)),
        }
    }
}
