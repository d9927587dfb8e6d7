//! How a token is laid down: by a process that waits, until something arrives; and for good, when the slot is buried.
//!
//! Whoever buries disposes first of what came too late, which is what nobody else will look at.

use super::{Slot, Token};
use crate::call::caller::Caller;
use crate::call::dead_letter::{DeadLetter, DeadLetterReason};
use crate::errors::CallError;
use crate::exit::ExitReason;
use crate::mailbox::lanes::{Claim, Lay, Pop};
use crate::mailbox::node::{Envelope, MailNode, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::process::control::Control;
use crate::sync::{Ordering, yield_now};
use std::ptr::NonNull;

impl Token {
    /// Lays the token down until anything arrives. Returns it if something has.
    #[inline]
    pub(crate) fn lay_idle(self) -> Option<Self> {
        self.0.owner.end();
        // SAFETY: this is the token.
        match unsafe { self.0.lanes.lay_idle() } {
            Lay::Refused => Some(self.taken_up()),
            Lay::Gone => None,
            Lay::Back(claim) => self.fresh(claim),
        }
    }

    /// Lays the token down until something arrives in the control lane. Returns it if something has.
    pub(crate) fn lay_wait(self) -> Option<Self> {
        self.0.owner.end();
        // SAFETY: this is the token.
        match unsafe { self.0.lanes.lay_wait() } {
            Lay::Refused => Some(self.taken_up()),
            Lay::Gone => None,
            Lay::Back(claim) => self.fresh(claim),
        }
    }

    /// A token that was taken back may be that of another life: it goes the way of any token that was just taken.
    fn fresh(self, claim: Claim) -> Option<Self> {
        match claim {
            Claim::Process => self.0.schedule(),
            Claim::Grave => drop(Self(self.0).taken_up().bury(None)),
            Claim::Nothing => {}
        }
        None
    }

    /// Lays down the token of a slot that carries no process, until one begins there or a late sender passes by. Gives
    /// it back if something has arrived.
    pub(crate) fn lay_dead(self) -> Option<Self> {
        self.0.owner.end();
        // SAFETY: this is the token.
        match unsafe { self.0.lanes.lay_dead() } {
            Lay::Refused | Lay::Back(Claim::Grave) => Some(self.taken_up()),
            Lay::Gone => None,
            // Between the laying and the look back the slot was given to a new process, whose token this is now.
            Lay::Back(claim) => self.fresh(claim),
        }
    }

    /// Empties the lanes of a slot that carries no process and lays the token down. Returns the envelope that was in
    /// the node `mine`, if it is among them; the others are dead letters.
    pub(crate) fn bury(mut self, mine: Option<NonNull<MailNode>>) -> Option<Envelope> {
        self.0.owner.check();
        debug_assert!(self.0.living().is_none(), "the living are not buried");
        let (mut mine, mut kept) = (mine, None);
        loop {
            // SAFETY: this is the token.
            match unsafe { self.0.lanes.pop_data() } {
                Pop::Letter(envelope, free) => {
                    free.into_iter().for_each(node_pool::recycle);
                    // The envelope was in the node that is now the lane's first; `mine` is only an address here.
                    if mine.is_some() && mine == self.first() {
                        kept = Some(envelope);
                        // Its node may be back in this lane before the burial is over.
                        mine = None;
                    } else {
                        self.dead_letter(envelope, DeadLetterReason::Ended, &ExitReason::Gone);
                    }
                    continue;
                }
                // The sender of the next envelope was preempted before it linked it. It believes its envelope accepted,
                // and there is no process to put back in line, so this waits for it.
                Pop::Busy => {
                    yield_now();
                    continue;
                }
                Pop::Empty => {}
            }
            let mut controls = self.hold().take_control();
            while let Some(mut node) = controls.pop() {
                let envelope = node.take();
                node_pool::recycle(node);
                self.0.late(envelope);
            }
            match self.lay_dead() {
                Some(again) => self = again,
                None => return kept,
            }
        }
    }

    /// The address of the lane's first node.
    fn first(&self) -> Option<NonNull<MailNode>> {
        // SAFETY: this is the token.
        NonNull::new(unsafe { self.0.lanes.first() })
    }

    /// Disposes of an envelope that nobody will handle: its caller learns `why`, a message goes to the dead-letter
    /// hook.
    pub(crate) fn dead_letter(&self, envelope: Envelope, reason: DeadLetterReason, why: &ExitReason) {
        let Some(home) = self.0.home() else { return };
        match (envelope.kind, envelope.payload) {
            (NodeKind::Message, Some(message)) => {
                // SAFETY: the word of a message is its caller, or null, and this envelope is its only holder.
                let caller = unsafe { Caller::from_word(envelope.word) };
                let to = home.pid(self.0.metadata.index, envelope.generation);
                home.keeper.dead_letter(DeadLetter { to, message, reason });
                // After the envelope: a caller that is told finds it counted.
                if let Some(caller) = caller {
                    caller.fail(CallError::Gone(why.clone()));
                }
            }
            // What is said about bonds is answered by its drop.
            (NodeKind::Stop | NodeKind::Notice, _) => {}
            (NodeKind::Ticket, _) => {
                if let Some(envelope) = home.keeper.redeem(self.0, envelope.generation) {
                    self.dead_letter(envelope, reason, why);
                }
            }
            _ => {
                home.late.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Buries an ended process's slot. Returns its index if the slot can be used again.
    pub(crate) fn release(self) -> Option<u32> {
        let (slot, reusable) = (self.0, self.is_reusable());
        let _nothing = self.bury(None);
        reusable.then_some(slot.metadata.index)
    }
}

impl Slot {
    pub(crate) fn late(&self, mut envelope: Envelope) {
        let control = envelope.payload.as_mut().and_then(Payload::get_mut::<Control>);
        // Whoever waits for the end of what has ended is told so by the drop: that is an answer, and not late.
        if !matches!(control, Some(Control::Join(_) | Control::Bond(_)))
            && let Some(home) = self.home()
        {
            home.late.fetch_add(1, Ordering::Relaxed);
        }
        drop(envelope);
    }
}
