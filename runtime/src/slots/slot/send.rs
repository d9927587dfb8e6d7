//! The way of a message, and of what is queued among messages: into the data lane, past the bound if it has one.

use super::admission::{Admission, Pushed, RefusalReason, SendRefusal};
use super::flags::{CONGESTED, HARD_BOUND};
use super::{Slot, Token};
use crate::call::caller::Caller;
use crate::mailbox::lanes::Claim;
use crate::mailbox::node::{Envelope, MailNode, NodeBox, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::pid::Pid;
use std::ptr::{self, NonNull};

impl Slot {
    /// Queues a message in the data lane of the process `to`, and wakes it if it is idle.
    ///
    /// # Errors
    /// The message, if no such process lives here or if its mailbox is full.
    #[inline]
    pub(crate) fn send<M: Send + 'static>(&'static self, to: Pid, message: M) -> Result<(), (M, RefusalReason)> {
        if !self.carries(to) {
            return Err((message, RefusalReason::Gone));
        }
        let sent = self.queue(node_pool::message(to.generation(), message, ptr::null_mut()));
        sent.map_err(|refusal| (unpack(refusal.0).0, refusal.1))
    }

    /// The same with someone who waits for the answer.
    ///
    /// # Errors
    /// The message and its caller, if no such process lives here or if its mailbox is full.
    #[inline]
    pub(crate) fn call<M: Send + 'static>(
        &'static self,
        to: Pid,
        message: M,
        caller: Caller,
    ) -> Result<(), (M, Option<Caller>, RefusalReason)> {
        if !self.carries(to) {
            return Err((message, Some(caller), RefusalReason::Gone));
        }
        self.queue(node_pool::message(to.generation(), message, caller.into_word())).map_err(|refusal| {
            let SendRefusal(envelope, why) = *refusal;
            let (message, caller) = unpack(envelope);
            (message, caller, why)
        })
    }

    /// Sends a message however full the mailbox is, and does nothing else yet, for code that holds a lock. What is to
    /// follow when the lock is free: the process is to be woken, with [`Token::wake`], if its token is given, and
    /// [`check_length`](Self::check_length) is to be called if that is said. Neither is ours alone: it may wait, or run
    /// code of others.
    ///
    /// # Errors
    /// The message, if no such process lives here.
    pub(crate) fn send_quietly<M: Send + 'static>(
        &'static self,
        to: Pid,
        message: M,
    ) -> Result<(Option<Token>, bool), M> {
        if !self.carries(to) {
            return Err(message);
        }
        let node = node_pool::message(to.generation(), message, ptr::null_mut());
        let mine = node.as_ptr();
        let mut check_length = false;
        match self.lanes.push_data(node, || self.known(), || check_length = true) {
            Claim::Nothing => Ok((None, check_length)),
            Claim::Process => Ok((Some(Token(self)), check_length)),
            Claim::Vacant => match self.take_back(mine) {
                Ok(()) => Ok((None, false)),
                Err(refusal) => Err(unpack(refusal.0).0),
            },
        }
    }

    /// Queues an envelope in the data lane of the process `to`, and wakes it if it is idle.
    ///
    /// # Errors
    /// The envelope, if no such process lives here.
    #[inline]
    pub(crate) fn enqueue(
        &'static self,
        kind: NodeKind,
        to: Pid,
        word: *mut MailNode,
        payload: Option<Payload>,
    ) -> Result<(), Box<SendRefusal>> {
        let envelope = Envelope { kind, generation: to.generation(), word, payload };
        if !self.carries(to) {
            return Err(Box::new(SendRefusal(envelope, RefusalReason::Gone)));
        }
        let node = node_pool::node(envelope);
        // A bound is for messages.
        if kind == NodeKind::Message { self.queue(node) } else { self.queue_anyway(node) }
    }

    /// Queues a message that has been accepted before, however full the mailbox is.
    ///
    /// # Errors
    /// The envelope, if no such process lives here.
    pub(crate) fn post_anyway(&'static self, to: Pid, word: *mut MailNode, payload: Payload) -> Result<(), Envelope> {
        let envelope = Envelope { kind: NodeKind::Message, generation: to.generation(), word, payload: Some(payload) };
        if !self.carries(to) {
            return Err(envelope);
        }
        self.queue_anyway(node_pool::node(envelope)).map_err(|refusal| refusal.0)
    }

    /// Queues a node in the data lane, and wakes the process if it is idle: what all that is sent passes through.
    ///
    /// # Errors
    /// The envelope, if the process has ended since it was looked for.
    #[inline(always)]
    fn queue(&'static self, node: NodeBox) -> Result<(), Box<SendRefusal>> {
        if self.flags.any(CONGESTED | HARD_BOUND) && self.must_ask() {
            return self.queue_if_admitted(node);
        }
        self.queue_anyway(node)
    }

    /// Returns false if the calling thread already knows that the mailbox is congested. Not inlined, so that the fast
    /// path stays one test of flags.
    #[inline(never)]
    fn must_ask(&self) -> bool {
        node_pool::known_congested() != self.address() || self.is_hard_bounded()
    }

    #[cold]
    fn queue_if_admitted(&'static self, node: NodeBox) -> Result<(), Box<SendRefusal>> {
        match self.home().map(|home| home.scheduler.admit(self, node)) {
            Some(Admission::Accepted(node)) => self.queue_anyway(node),
            Some(Admission::Pushed(pushed)) => self.follow(pushed),
            Some(Admission::Refused(envelope, why)) => Err(Box::new(SendRefusal(envelope, why))),
            Some(Admission::Taken) | None => Ok(()),
        }
    }

    /// As [`queue`](Self::queue), however full the mailbox is.
    #[inline(always)]
    fn queue_anyway(&'static self, node: NodeBox) -> Result<(), Box<SendRefusal>> {
        let mine = node.as_ptr();
        match self.lanes.push_data(node, || self.known(), || self.check_length()) {
            Claim::Nothing => Ok(()),
            Claim::Process => {
                self.schedule();
                Ok(())
            }
            Claim::Vacant => self.take_back(mine),
        }
    }

    /// Puts a node into the data lane and does nothing else yet, for code that holds a lock. [`follow`](Self::follow)
    /// comes next.
    pub(crate) fn push(&self, node: NodeBox) -> Pushed {
        let mine = node.as_ptr();
        let mut check_length = false;
        // How long it is is known by other means to those that do this.
        let claim = self.lanes.push_data(node, || 0, || check_length = true);
        Pushed { mine, claim, check_length }
    }

    /// What follows from a push: the process is woken if it was idle. It may run code of others.
    ///
    /// # Errors
    /// The envelope, if the process has ended since it was looked for.
    pub(crate) fn follow(&'static self, pushed: Pushed) -> Result<(), Box<SendRefusal>> {
        if pushed.check_length {
            self.check_length();
        }
        match pushed.claim {
            Claim::Nothing => Ok(()),
            Claim::Process => {
                self.schedule();
                Ok(())
            }
            Claim::Vacant => self.take_back(pushed.mine),
        }
    }

    /// The sequence number of a message that came not long before, if the mailbox is too full; else zero.
    #[cold]
    fn known(&'static self) -> u64 {
        if self.is_congested() { self.home().map_or(0, |home| home.scheduler.known(self)) } else { 0 }
    }

    /// So many messages have come that it is time to look how full the mailbox is; what follows is the sender's.
    #[cold]
    pub(crate) fn check_length(&'static self) {
        if let Some(home) = self.home() {
            home.scheduler.check_length(self);
        }
    }

    /// The caller has taken the token of a vacant slot with an envelope in the node `mine`, which it gets back.
    #[cold]
    fn take_back(&'static self, mine: NonNull<MailNode>) -> Result<(), Box<SendRefusal>> {
        match Token(self).taken_up().empty_and_park(Some(mine)) {
            // What it stands for was in the ring when the process ended, and is a dead letter.
            Some(envelope) if envelope.kind != NodeKind::Ticket => {
                Err(Box::new(SendRefusal(envelope, RefusalReason::Gone)))
            }
            _ => Ok(()),
        }
    }
}

/// The message and its caller of an envelope that came back to its sender.
#[cold]
fn unpack<M: Send + 'static>(envelope: Envelope) -> (M, Option<Caller>) {
    // SAFETY: the word of a message is its caller, or null, and this envelope is its only holder.
    let caller = unsafe { Caller::from_word(envelope.word) };
    match envelope.payload.map(Payload::take) {
        Some(Ok(message)) => (message, caller),
        Some(Err(other)) => unreachable!("a `{}` came back for another message", other.type_name()),
        None => unreachable!("a message has a payload"),
    }
}
