//! Parking the token of a process that waits for input, or of a vacant slot once late messages have been disposed of.

use super::{Slot, Token};
use crate::call::caller::Caller;
use crate::call::dead_letter::{DeadLetter, DeadLetterReason};
use crate::errors::CallError;
use crate::exit::ExitReason;
use crate::mailbox::lanes::{Advance, Claim, ParkResult};
use crate::mailbox::node::{Envelope, MailNode, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::process::control::Control;
use crate::sync::{Ordering, yield_now};
use std::ptr::NonNull;

impl Token {
    /// Parks the token until anything arrives. Returns it if something has arrived already.
    #[inline]
    pub(crate) fn park_idle(self) -> Option<Self> {
        self.0.debug_owner.end();
        // SAFETY: this is the token.
        match unsafe { self.0.lanes.park_idle() } {
            ParkResult::Refused => Some(self.acquire()),
            ParkResult::Parked => None,
            ParkResult::Reclaimed(claim) => self.fresh(claim),
        }
    }

    /// Parks the token until something arrives in the control lane. Returns it if something has arrived already.
    pub(crate) fn park_waiting(self) -> Option<Self> {
        self.0.debug_owner.end();
        // SAFETY: this is the token.
        match unsafe { self.0.lanes.park_waiting() } {
            ParkResult::Refused => Some(self.acquire()),
            ParkResult::Parked => None,
            ParkResult::Reclaimed(claim) => self.fresh(claim),
        }
    }

    /// Handles a token that was taken back, perhaps for another incarnation, like any token that was just taken.
    fn fresh(self, claim: Claim) -> Option<Self> {
        self.0.settle(claim);
        None
    }

    /// Parks the token of a vacant slot until a process starts in it or a late sender pushes. Returns it if something
    /// has already arrived.
    pub(crate) fn park_vacant(self) -> Option<Self> {
        self.0.debug_owner.end();
        self.0.generation.vacate();
        // SAFETY: this is the token.
        match unsafe { self.0.lanes.park_vacant() } {
            ParkResult::Refused | ParkResult::Reclaimed(Claim::Vacant) => Some(self.acquire()),
            ParkResult::Parked => None,
            // A new process got the slot after the token was parked and before it was taken back. This is its token
            // now.
            ParkResult::Reclaimed(claim) => self.fresh(claim),
        }
    }

    /// Vacates the slot without parking its token. Returns true if nothing has arrived and nothing is about to arrive
    /// (*keep* in [`requests`](super::requests)).
    #[inline]
    pub(crate) fn vacate_unparked(&self) -> bool {
        self.0.generation.vacate();
        // SAFETY: this is the token.
        !self.0.has_requesters() && unsafe { self.0.lanes.are_empty_in_order() }
    }

    /// Empties the lanes of a vacant slot and parks its token. If one of the envelopes was in the node `mine`, returns
    /// it. The others become dead letters.
    pub(crate) fn empty_and_park(mut self, mine: Option<NonNull<MailNode>>) -> Option<Envelope> {
        self.0.debug_owner.check();
        debug_assert!(self.0.living().is_none(), "the process has ended");
        let (mut mine, mut kept) = (mine, None);
        loop {
            // SAFETY: this is the token.
            match unsafe { self.0.lanes.pop_data() } {
                Advance::To(envelope, free) => {
                    free.into_iter().for_each(node_pool::recycle);
                    // The envelope was in the node that is now the lane's first; `mine` is only compared as an address.
                    if mine.is_some() && mine == self.first() {
                        kept = Some(envelope);
                        // The node may be reused in this lane before the loop ends.
                        mine = None;
                    } else {
                        self.dead_letter(envelope, DeadLetterReason::Ended, &ExitReason::NoProcess);
                    }
                    continue;
                }
                // The next sender was preempted before it linked its node. It considers its message accepted, and there
                // is no process to requeue, so this loop waits for the sender.
                Advance::Busy => {
                    yield_now();
                    continue;
                }
                Advance::Empty => {}
            }
            let mut controls = self.lanes().take_control();
            while let Some(mut node) = controls.pop() {
                let envelope = node.take();
                node_pool::recycle(node);
                self.0.late(envelope);
            }
            match self.park_vacant() {
                Some(again) => self = again,
                None => return kept,
            }
        }
    }

    fn first(&self) -> Option<NonNull<MailNode>> {
        // SAFETY: this is the token.
        NonNull::new(unsafe { self.0.lanes.first() })
    }

    /// Disposes of an envelope that no process will handle. A message goes to the dead-letter hook, and its call fails
    /// with `why`.
    pub(crate) fn dead_letter(&self, envelope: Envelope, reason: DeadLetterReason, why: &ExitReason) {
        let Some(owner) = self.0.owner() else { return };
        match (envelope.kind, envelope.payload) {
            (NodeKind::Message, Some(message)) => {
                // SAFETY: the word of a message is its caller, or null, and this envelope is its only holder.
                let caller = unsafe { Caller::from_word(envelope.word) };
                let to = owner.pid(self.0.metadata.index, envelope.generation);
                // A call whose message came after the process was over can only have been withdrawn for that reason:
                // see `requests`.
                let is_over = self.0.is_over(envelope.generation);
                let is_withdrawn = !is_over && caller.as_ref().is_some_and(Caller::is_withdrawn);
                let reason = if is_withdrawn { DeadLetterReason::Withdrawn } else { reason };
                let letter = DeadLetter::new(to, message, reason, caller.as_ref());
                owner.host.dead_letter(DeadLetter { exit: Some(why.clone()), ..letter });
                // The call fails only after the dead letter, so that its caller then finds the dead letter counted.
                if let Some(caller) = caller {
                    caller.fail(CallError::Gone(why.clone()));
                }
            }
            // Dropping a link message answers it.
            (NodeKind::Stop | NodeKind::Notice, _) => {}
            (NodeKind::Placeholder, _) => {
                if let Some(envelope) = owner.host.redeem(self.0, envelope.generation) {
                    self.dead_letter(envelope, reason, why);
                }
            }
            _ => {
                owner.late.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Handles a token that was taken back like any token that was just taken, because the slot may have a process by
    /// now.
    pub(crate) fn pass_on(self) {
        match self.0.living() {
            Some(_) => self.wake(),
            None => drop(self.acquire().empty_and_park(None)),
        }
    }

    /// Vacates the slot of an ended process. Returns its index if the slot can be reused.
    pub(crate) fn vacate(self) -> Option<u32> {
        let (slot, reusable) = (self.0, self.is_reusable());
        let _nothing = self.empty_and_park(None);
        reusable.then_some(slot.metadata.index)
    }
}

impl Slot {
    pub(crate) fn late(&self, mut envelope: Envelope) {
        let control = envelope.payload.as_mut().and_then(Payload::get_mut::<Control>);
        // Dropping the request notifies a waiter that the process has ended. That is an answer, so it is not counted as
        // late.
        if !matches!(control, Some(Control::Join(_) | Control::Link(_)))
            && let Some(owner) = self.owner()
        {
            owner.late.fetch_add(1, Ordering::Relaxed);
        }
        drop(envelope);
    }
}
