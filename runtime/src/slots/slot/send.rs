//! The path of a message: into the data lane, past the bound if there is one.

use super::admission::{Admission, Pushed, RefusalReason, SendRefusal};
use super::flag_word::{CONGESTED, HARD_BOUND};
use super::{Slot, Token};
use crate::call::call_id::CallId;
use crate::call::caller::{Caller, fail_stranded};
use crate::exit::ExitReason;
use crate::mailbox::lanes::{Claim, LENGTH_CHECK};
use crate::mailbox::node::{Envelope, MailNode, NodeBox, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::pid::Pid;
use crate::recorder::kind::RecordKind;
use crate::recorder::session::Recorder;
#[cfg(feature = "test")]
use crate::sync::simulated;
use std::ptr::{self, NonNull};

impl Slot {
    /// Queues a message in the data lane of the process `to`, and wakes it if it is idle.
    ///
    /// # Errors
    /// The message, if there is no such process here, its host is recorded, or its mailbox is full.
    #[inline]
    pub(crate) fn send<M: Send + 'static>(&'static self, to: Pid, message: M) -> Result<(), (M, RefusalReason)> {
        if !self.carries_unrecorded(to) {
            return Err((message, RefusalReason::Gone));
        }
        let sent = self.queue_message(to.generation(), message, ptr::null_mut());
        sent.map_err(|refusal| (unpack(refusal.0).0, refusal.1))
    }

    /// Sends a message with a caller.
    ///
    /// # Errors
    /// The message and its caller, if there is no such process here, its host is recorded, or its mailbox is full.
    #[inline(always)]
    pub(crate) fn call<M: Send + 'static>(
        &'static self,
        to: Pid,
        message: M,
        caller: Caller,
    ) -> Result<(), (M, Option<Caller>, RefusalReason)> {
        if !self.carries_unrecorded(to) {
            return Err((message, Some(caller), RefusalReason::Gone));
        }
        // A supervisor may keep the message for the next incarnation.
        let (call, is_kept) = (caller.id(), self.is_supervised());
        match self.queue_message(to.generation(), message, caller.into_word()) {
            Ok(()) => {
                if !self.is_living_in_order(to.generation()) && !is_kept {
                    self.called_late(call, to.generation());
                }
                Ok(())
            }
            Err(refusal) => {
                let SendRefusal(envelope, why) = *refusal;
                let (message, caller) = unpack(envelope);
                Err((message, caller, why))
            }
        }
    }

    /// Fails a call if its message was pushed when the exit of the process was over, and so may lie in the mailbox of
    /// the next one: see [`requests`](super::requests).
    #[cold]
    #[inline(never)]
    fn called_late(&self, call: CallId, generation: u64) {
        if !self.may_be_asked(generation) {
            fail_stranded(call, ExitReason::NoProcess);
        }
    }

    /// Sends a message, perhaps with a caller, to a process whose host is recorded: to [`send`](Self::send) and
    /// [`call`](Self::call) it seems to be gone, so that they pay nothing for this.
    ///
    /// # Errors
    /// The message and its caller, if there is no such process here or its mailbox is full.
    #[inline(never)]
    pub(crate) fn send_recorded<M: Send + 'static>(
        &'static self,
        to: Pid,
        message: M,
        mut caller: Option<Caller>,
    ) -> Result<(), (M, Option<Caller>, RefusalReason)> {
        let Some(recorder) = self.recorder_for(to) else { return Err((message, caller, RefusalReason::Gone)) };
        let asked = caller.as_mut().and_then(Caller::record);
        let call = caller.as_ref().filter(|_| !self.is_supervised()).map(Caller::id);
        let stamp = recorder.stamp();
        let word = caller.map_or(ptr::null_mut(), Caller::into_word);
        let sent = self.queue_at(node_pool::message(to.generation(), message, word), recorder, to, stamp);
        if sent.is_ok()
            && let Some(tag) = asked
        {
            recorder.note_at(stamp, RecordKind::Ask, to.incarnation(), tag, None);
        }
        if sent.is_ok()
            && let Some(call) = call
            && !self.is_living_in_order(to.generation())
        {
            self.called_late(call, to.generation());
        }
        sent.map_err(|refusal| {
            let SendRefusal(envelope, why) = *refusal;
            let (message, caller) = unpack(envelope);
            (message, caller, why)
        })
    }

    /// Sends a message however full the mailbox is, and defers all else, for code that holds a lock. After releasing
    /// it, the caller wakes the process, with [`Token::wake`], if its token is returned, and calls
    /// [`check_length`](Self::check_length) if required. Both may block, or run foreign code.
    ///
    /// # Errors
    /// The message, if there is no such process here.
    pub(crate) fn send_quietly<M: Send + 'static>(
        &'static self,
        to: Pid,
        message: M,
    ) -> Result<(Option<Token>, bool), M> {
        let recorder = if self.carries_unrecorded(to) {
            None
        } else {
            match self.recorder_for(to) {
                Some(recorder) => Some((recorder, recorder.stamp())),
                None => return Err(message),
            }
        };
        // Without an origin, which would be asked of a subscriber.
        #[cfg(feature = "spans")]
        let node =
            crate::observe::spans::on_behalf_of(None, || node_pool::message(to.generation(), message, ptr::null_mut()));
        #[cfg(not(feature = "spans"))]
        let node = node_pool::message(to.generation(), message, ptr::null_mut());
        let (mine, name) = (node.as_ptr(), node.name_of());
        let (mut check_length, mut number) = (false, 0);
        let claim = self.lanes.push_numbered(
            node,
            || self.known(),
            |sequence| {
                number = sequence;
                check_length = is_to_check(sequence);
            },
        );
        if let Some((recorder, stamp)) = recorder {
            recorder.note_at(stamp, RecordKind::Send, to.incarnation(), number, name);
        }
        match claim {
            Claim::Nothing => {
                if !self.permit.is_kept_idle_after_push() {
                    return Ok((None, check_length));
                }
                Ok((self.take_kept(), check_length))
            }
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
    /// The envelope, if there is no such process here.
    #[inline]
    pub(crate) fn enqueue(
        &'static self,
        kind: NodeKind,
        to: Pid,
        word: *mut MailNode,
        payload: Option<Payload>,
    ) -> Result<(), Box<SendRefusal>> {
        let envelope = Envelope { kind, generation: to.generation(), word, payload };
        if !self.carries_unrecorded(to) {
            return self.enqueue_recorded(to, envelope);
        }
        let node = node_pool::node(envelope);
        // Bounds apply to messages only.
        if kind == NodeKind::Message { self.queue(node) } else { self.queue_anyway(node) }
    }

    /// Queues an envelope for a process whose host is recorded, or that is not here.
    #[cold]
    #[inline(never)]
    fn enqueue_recorded(&'static self, to: Pid, envelope: Envelope) -> Result<(), Box<SendRefusal>> {
        match self.recorder_for(to) {
            None => Err(Box::new(SendRefusal(envelope, RefusalReason::Gone))),
            Some(recorder) if envelope.kind == NodeKind::Message => {
                self.queue_recorded(node_pool::node(envelope), recorder, to)
            }
            Some(_) => self.queue_anyway(node_pool::node(envelope)),
        }
    }

    /// Queues a message that was accepted before, however full the mailbox is.
    ///
    /// # Errors
    /// The envelope, if there is no such process here.
    pub(crate) fn post_anyway(&'static self, to: Pid, word: *mut MailNode, payload: Payload) -> Result<(), Envelope> {
        let envelope = Envelope { kind: NodeKind::Message, generation: to.generation(), word, payload: Some(payload) };
        if self.carries_unrecorded(to) {
            return self.queue_anyway(node_pool::node(envelope)).map_err(|refusal| refusal.0);
        }
        let Some(recorder) = self.recorder_for(to) else { return Err(envelope) };
        let stamp = recorder.stamp();
        self.push_recorded(node_pool::node(envelope), recorder, to, stamp).map_err(|refusal| refusal.0)
    }

    #[inline(always)]
    fn queue_message<M: Send + 'static>(
        &'static self,
        generation: u64,
        message: M,
        word: *mut MailNode,
    ) -> Result<(), Box<SendRefusal>> {
        #[cfg(all(test, not(loom)))]
        crate::sync::window::pass(crate::sync::window::Window::BeforeMessage);
        self.queue(node_pool::message(generation, message, word))
    }

    /// Queues a node in the data lane, and wakes the process if it is idle.
    ///
    /// # Errors
    /// The envelope, if the process has ended since it was looked up.
    #[inline(always)]
    fn queue(&'static self, node: NodeBox) -> Result<(), Box<SendRefusal>> {
        #[cfg(feature = "test")]
        if let Some(kind) = self.metadata.kind().filter(|_| simulated::is_here())
            && simulated::mishap(simulated::Mishap::Full, kind.type_id).is_some()
        {
            return simulated::while_full(|| self.queue_if_admitted(node));
        }
        if self.flags.any(CONGESTED | HARD_BOUND) && self.must_ask() {
            return self.queue_if_admitted(node);
        }
        self.queue_anyway(node)
    }

    /// Queues a message like [`queue`](Self::queue), and records that.
    #[cold]
    fn queue_recorded(
        &'static self,
        node: NodeBox,
        recorder: &'static Recorder,
        to: Pid,
    ) -> Result<(), Box<SendRefusal>> {
        // Before the push: the message may be handled at once.
        let stamp = recorder.stamp();
        self.queue_at(node, recorder, to, stamp)
    }

    fn queue_at(
        &'static self,
        node: NodeBox,
        recorder: &'static Recorder,
        to: Pid,
        stamp: u64,
    ) -> Result<(), Box<SendRefusal>> {
        #[cfg(all(test, not(loom)))]
        crate::sync::window::pass(crate::sync::window::Window::BeforeMessage);
        #[cfg(feature = "test")]
        if let Some(kind) = self.metadata.kind().filter(|_| simulated::is_here())
            && simulated::mishap(simulated::Mishap::Full, kind.type_id).is_some()
        {
            return simulated::while_full(|| self.admit_recorded(node, recorder, to, stamp));
        }
        if self.flags.any(CONGESTED | HARD_BOUND) && self.must_ask() {
            return self.admit_recorded(node, recorder, to, stamp);
        }
        self.push_recorded(node, recorder, to, stamp)
    }

    #[cold]
    fn admit_recorded(
        &'static self,
        node: NodeBox,
        recorder: &'static Recorder,
        to: Pid,
        stamp: u64,
    ) -> Result<(), Box<SendRefusal>> {
        #[cfg(feature = "test")]
        if let Some(simulator) = simulated::here() {
            simulator.sent(self.index());
        }
        let name = node.name_of();
        match self.owner().map(|owner| owner.host.admit(self, node)) {
            Some(Admission::Accepted(node)) => self.push_recorded(node, recorder, to, stamp),
            Some(Admission::Pushed(pushed)) => {
                recorder.note_at(stamp, RecordKind::Send, to.incarnation(), pushed.sequence, name);
                self.follow(pushed)
            }
            Some(Admission::Refused(envelope, why)) => Err(Box::new(SendRefusal(envelope, why))),
            Some(Admission::Taken) | None => Ok(()),
        }
    }

    fn push_recorded(
        &'static self,
        node: NodeBox,
        recorder: &'static Recorder,
        to: Pid,
        stamp: u64,
    ) -> Result<(), Box<SendRefusal>> {
        #[cfg(feature = "test")]
        if let Some(simulator) = simulated::here() {
            simulator.sent(self.index());
        }
        let (mine, name, mut number) = (node.as_ptr(), node.name_of(), 0);
        let claim = self.lanes.push_numbered(node, || self.known(), |sequence| number = sequence);
        recorder.note_at(stamp, RecordKind::Send, to.incarnation(), number, name);
        if is_to_check(number) {
            self.check_length();
        }
        self.pushed(mine, claim)
    }

    /// Returns false if the calling thread already knows that the mailbox is congested. Not inlined, so that the fast
    /// path stays one test of flags.
    #[inline(never)]
    fn must_ask(&self) -> bool {
        node_pool::known_congested() != self.address() || self.is_hard_bounded()
    }

    #[cold]
    fn queue_if_admitted(&'static self, node: NodeBox) -> Result<(), Box<SendRefusal>> {
        #[cfg(feature = "test")]
        if let Some(simulator) = simulated::here() {
            simulator.sent(self.index());
        }
        match self.owner().map(|owner| owner.host.admit(self, node)) {
            Some(Admission::Accepted(node)) => self.queue_anyway(node),
            Some(Admission::Pushed(pushed)) => self.follow(pushed),
            Some(Admission::Refused(envelope, why)) => Err(Box::new(SendRefusal(envelope, why))),
            Some(Admission::Taken) | None => Ok(()),
        }
    }

    /// Queues a node, however full the mailbox is.
    #[inline(always)]
    fn queue_anyway(&'static self, node: NodeBox) -> Result<(), Box<SendRefusal>> {
        #[cfg(feature = "test")]
        if let Some(simulator) = simulated::here() {
            simulator.sent(self.index());
        }
        let mine = node.as_ptr();
        let claim = self.lanes.push_data(node, || self.known(), || self.check_length());
        self.pushed(mine, claim)
    }

    #[inline(always)]
    fn pushed(&'static self, mine: NonNull<MailNode>, claim: Claim) -> Result<(), Box<SendRefusal>> {
        match claim {
            Claim::Nothing => {
                self.run_if_kept_idle();
                Ok(())
            }
            Claim::Process => {
                self.schedule();
                Ok(())
            }
            Claim::Vacant => self.take_back(mine),
        }
    }

    /// Puts a node into the data lane and defers all else, under a lock: [`follow`](Self::follow) comes next.
    pub(crate) fn push(&self, node: NodeBox) -> Pushed {
        let (mine, mut sequence) = (node.as_ptr(), 0);
        // Callers know the length by other means.
        let claim = self.lanes.push_numbered(node, || 0, |number| sequence = number);
        Pushed { mine, claim, check_length: is_to_check(sequence), sequence }
    }

    /// Completes a push: wakes the process if it was idle. May run foreign code.
    ///
    /// # Errors
    /// The envelope, if the process has ended since it was looked up.
    pub(crate) fn follow(&'static self, pushed: Pushed) -> Result<(), Box<SendRefusal>> {
        if pushed.check_length {
            self.check_length();
        }
        self.pushed(pushed.mine, pushed.claim)
    }

    /// Returns the sequence number of a recent message, if the mailbox is too full; otherwise zero.
    #[cold]
    fn known(&'static self) -> u64 {
        if self.is_congested() { self.owner().map_or(0, |owner| owner.host.known(self)) } else { 0 }
    }

    /// Checks how full the mailbox is, at every batch of messages; the consequences are the sender's.
    #[cold]
    pub(crate) fn check_length(&'static self) {
        if let Some(owner) = self.owner() {
            owner.host.check_length(self);
        }
    }

    /// Called with the token of a vacant slot. Returns the envelope in the node `mine`.
    #[cold]
    fn take_back(&'static self, mine: NonNull<MailNode>) -> Result<(), Box<SendRefusal>> {
        match Token(self).acquire().empty_and_park(Some(mine)) {
            // The message of a placeholder was in the queue when the process ended, and became a dead letter.
            Some(envelope) if envelope.kind != NodeKind::Placeholder => {
                Err(Box::new(SendRefusal(envelope, RefusalReason::Gone)))
            }
            _ => Ok(()),
        }
    }
}

/// Returns whether the length of a mailbox is checked at this sequence number.
fn is_to_check(sequence: u64) -> bool {
    sequence.is_multiple_of(LENGTH_CHECK)
}

/// Returns the message and the caller of an envelope that was returned to its sender.
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
