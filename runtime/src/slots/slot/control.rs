//! What reaches a process beside its messages: controls, wakes, and the answers to what it asked for.

use super::{Slot, Token};
use crate::call::caller::Port;
use crate::errors::CommandError;
use crate::mailbox::lanes::Claim;
use crate::mailbox::node::{Envelope, MailNode, NodeBox, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;

impl Slot {
    /// Pushes a node to the control lane of the process of `generation`; a late one is counted and comes to nothing.
    pub(crate) fn post_control(
        &'static self,
        mut node: NodeBox,
        kind: NodeKind,
        generation: u64,
        word: *mut MailNode,
        payload: Option<Payload>,
    ) {
        let envelope = Envelope { kind, generation, word, payload };
        // A signal is let in while its process is being taken apart: it may be a wish to be told of the end.
        let told = kind == NodeKind::Signal && self.is_last(generation);
        if !self.is_living(generation) && !told {
            node_pool::recycle(node);
            self.late(envelope);
            return;
        }
        node.put(envelope);
        self.settle(self.lanes.push_control(node));
    }

    /// Wakes the process as [`wake`](Self::wake) does, for a caller that gives its waker up by that: `give_back` counts
    /// it out, and says whether it was the last one. It is counted out when the wake can be seen, and before the
    /// process runs for it.
    pub(crate) fn wake_and_give_back(&'static self, generation: u64, give_back: impl FnOnce() -> bool) {
        if !self.is_living(generation) {
            give_back();
            return;
        }
        let claim = self.lanes.wake();
        let was_last = give_back();
        match claim {
            // It may have run for this wake already, found the waker still lent, and wait now.
            Claim::Nothing if was_last => self.wake(generation),
            claim => self.settle(claim),
        }
    }

    /// Says that a future of the process of `generation` can make progress. Never wrong: a wake too many is harmless.
    pub(crate) fn wake(&'static self, generation: u64) {
        if self.is_living(generation) {
            self.settle(self.lanes.wake());
        }
    }

    /// Has the process, which lives, make another step before it rests. Returns whether it waits for control only, and
    /// was left alone.
    pub(crate) fn rouse(&'static self, generation: u64) -> bool {
        debug_assert!(generation != 0, "that of a process");
        let Some(claim) = self.lanes.rouse() else { return true };
        self.settle(claim);
        false
    }

    /// Does what a token that may have been taken is for.
    pub(super) fn settle(&'static self, claim: Claim) {
        match claim {
            Claim::Nothing => {}
            Claim::Process => self.schedule(),
            Claim::Vacant => drop(Token(self).taken_up().empty_and_park(None)),
        }
    }
}

impl Port for Slot {
    fn answer(
        &'static self,
        node: NodeBox,
        generation: u64,
        tag: *mut MailNode,
        result: Result<Payload, CommandError>,
    ) {
        match result {
            Ok(value) => self.post_control(node, NodeKind::Completed, generation, tag, Some(value)),
            Err(error) => self.post_control(node, NodeKind::Failed, generation, tag, Some(Payload::new(error))),
        }
    }
}
