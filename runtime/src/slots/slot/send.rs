//! The path of a message into the data lane, including the check of the mailbox's bound if it has one. If the host of
//! the process is recorded, so is the send.

use super::admission::{Admission, Pushed, RefusalReason, SendPolicy, SendRefusal};
use super::words::{CONGESTED, HARD_BOUND};
use super::{Slot, Token};
use crate::call::call_id::CallId;
use crate::call::caller::{Caller, fail_stranded};
use crate::exit::ExitReason;
use crate::mailbox::lanes::Claim;
use crate::mailbox::node::{Envelope, MailNode, NodeBox, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::observe::spans::on_behalf_of;
use crate::pid::Pid;
use crate::recorder::kind::RecordKind;
use crate::recorder::session::Recorder;
use crate::sync::simulated::{self, Mishap, mishap};
use std::ptr::{self, NonNull};

/// The record of a send. It is stamped before the push, because the message may be handled right after the push.
#[derive(Clone, Copy)]
struct SendRecord {
    recorder: &'static Recorder,
    to: Pid,
    stamp: u64,
}

impl SendRecord {
    fn begin(recorder: &'static Recorder, to: Pid) -> Self {
        Self { recorder, to, stamp: recorder.stamp() }
    }

    fn note(&self, pushed: &Pushed, name: Option<&'static fn() -> &'static str>) {
        self.recorder.note_at(self.stamp, RecordKind::Send, self.to.incarnation(), pushed.sequence, name);
    }
}

impl Slot {
    /// Queues a message in the data lane of the process `to`, and wakes it if it is idle.
    ///
    /// # Errors
    /// Returns the message, if there is no such process here or its mailbox is full.
    #[inline]
    pub(crate) fn send<M: Send + 'static>(&'static self, to: Pid, message: M) -> Result<(), (M, RefusalReason)> {
        if !self.carries_unrecorded(to) {
            return self.send_recorded(to, message, None).map_err(|(message, _, why)| (message, why));
        }
        let sent = self.queue(node_pool::message(to.generation(), message, ptr::null_mut()), None);
        sent.map_err(|refusal| (unpack(refusal.0).0, refusal.1))
    }

    /// Sends a message that has a caller.
    ///
    /// # Errors
    /// Returns the message and its caller, if there is no such process here or its mailbox is full.
    #[inline(always)]
    pub(crate) fn call<M: Send + 'static>(
        &'static self,
        to: Pid,
        message: M,
        caller: Caller,
    ) -> Result<(), (M, Option<Caller>, RefusalReason)> {
        if !self.carries_unrecorded(to) {
            return self.send_recorded(to, message, Some(caller));
        }
        let call = caller.id();
        match self.queue(node_pool::message(to.generation(), message, caller.into_word()), None) {
            Ok(()) => {
                self.look_after_call(call, to.generation());
                Ok(())
            }
            Err(refusal) => Err(unpack_refusal(*refusal)),
        }
    }

    /// Sends a message, perhaps with a caller, after the fast path has found that the host of the process is recorded,
    /// or that the process is not in this slot.
    #[cold]
    #[inline(never)]
    fn send_recorded<M: Send + 'static>(
        &'static self,
        to: Pid,
        message: M,
        mut caller: Option<Caller>,
    ) -> Result<(), (M, Option<Caller>, RefusalReason)> {
        let Some(recorder) = self.recorder_of(to) else { return Err((message, caller, RefusalReason::Gone)) };
        let record = SendRecord::begin(recorder, to);
        let asked = caller.as_mut().and_then(Caller::record);
        let call = caller.as_ref().map(Caller::id);
        let word = caller.map_or(ptr::null_mut(), Caller::into_word);
        let node = node_pool::message(to.generation(), message, word);
        let sent = self.deliver_node(node, SendPolicy::Bounded, Some(&record));
        sent.map_err(|refusal| unpack_refusal::<M>(*refusal))?;
        if let Some(tag) = asked {
            recorder.note_at(record.stamp, RecordKind::Ask, to.incarnation(), tag, None);
        }
        if let Some(call) = call {
            self.look_after_call(call, to.generation());
        }
        Ok(())
    }

    /// Performs *look* after the push of a call's message; see [`requests`](super::requests).
    #[inline(always)]
    fn look_after_call(&self, call: CallId, generation: u64) {
        #[cfg(all(test, not(loom)))]
        crate::sync::window::pass(crate::sync::window::Window::BeforeLook);
        if !self.is_living_in_order(generation) {
            self.called_late(call, generation);
        }
    }

    /// Fails a call whose message was pushed after the process was over, because the message may be in the mailbox of
    /// the next process. See [`requests`](super::requests).
    #[cold]
    #[inline(never)]
    fn called_late(&self, call: CallId, generation: u64) {
        if !self.may_be_asked(generation) {
            fail_stranded(call, ExitReason::NoProcess);
        }
    }

    /// Queues an envelope in the data lane of the process `to`, and wakes it if it is idle.
    ///
    /// # Errors
    /// Returns the envelope, if there is no such process here or its mailbox is full.
    pub(crate) fn deliver(
        &'static self,
        to: Pid,
        kind: NodeKind,
        caller: Option<Caller>,
        payload: Option<Payload>,
        policy: SendPolicy,
    ) -> Result<(), Box<SendRefusal>> {
        debug_assert!(kind == NodeKind::Message || policy == SendPolicy::Anyway, "bounds apply to messages only");
        let passed_on = caller.as_ref().map(Caller::id);
        let word = caller.map_or(ptr::null_mut(), Caller::into_word);
        let envelope = Envelope { kind, generation: to.generation(), word, payload };
        let recorder = match self.gate(to) {
            Some(recorder) => recorder.filter(|_| kind == NodeKind::Message),
            None => return Err(Box::new(SendRefusal(envelope, RefusalReason::Gone))),
        };
        let record = recorder.map(|recorder| SendRecord::begin(recorder, to));
        self.deliver_node(node_pool::node(envelope), policy, record.as_ref())?;
        if let Some(call) = passed_on {
            self.look_after_call(call, to.generation());
        }
        Ok(())
    }

    fn deliver_node(
        &'static self,
        node: NodeBox,
        policy: SendPolicy,
        record: Option<&SendRecord>,
    ) -> Result<(), Box<SendRefusal>> {
        match policy {
            SendPolicy::Bounded => self.queue(node, record),
            SendPolicy::Anyway if self.is_hard_bounded() => self.queue_if_admitted(node, policy, record),
            SendPolicy::Anyway => self.queue_anyway(node, record),
        }
    }

    /// Pushes a message regardless of how full the mailbox is. This is for code that holds a lock. After releasing the
    /// lock, the caller wakes the process if its token was [claimed](Self::claimed), and [checks the
    /// length](Self::check_length) of the mailbox if required. Both may block or run user code.
    ///
    /// # Errors
    /// Returns the message, if there is no such process here. If the process ends during the call, the push may
    /// succeed, and may take the token of the vacant slot.
    pub(crate) fn push_message<M: Send + 'static>(&'static self, to: Pid, message: M) -> Result<Option<Pushed>, M> {
        let Some(recorder) = self.gate(to) else { return Err(message) };
        let record = recorder.map(|recorder| SendRecord::begin(recorder, to));
        // The message gets no origin: looking one up would call a subscriber, which is user code.
        let node = on_behalf_of(None, || node_pool::message(to.generation(), message, ptr::null_mut()));
        if !self.is_hard_bounded() {
            return Ok(Some(self.push_recorded(node, record.as_ref())));
        }
        self.push_if_admitted(node, SendPolicy::Anyway, record.as_ref()).map_err(|refusal| unpack(refusal.0).0)
    }

    /// Queues a node in the data lane, if the bound of the mailbox permits, and wakes the process if it is idle.
    ///
    /// # Errors
    /// Returns the envelope, if the process has ended since it was looked up, or its mailbox is full.
    #[inline(always)]
    fn queue(&'static self, node: NodeBox, record: Option<&SendRecord>) -> Result<(), Box<SendRefusal>> {
        #[cfg(all(test, not(loom)))]
        crate::sync::window::pass(crate::sync::window::Window::BeforeMessage);
        if simulated::is_here() && self.metadata.kind().is_some_and(|kind| mishap(Mishap::Full, kind.type_id).is_some())
        {
            return simulated::while_full(|| self.queue_if_admitted(node, SendPolicy::Bounded, record));
        }
        if self.flags.any(CONGESTED | HARD_BOUND) && self.must_ask() {
            return self.queue_if_admitted(node, SendPolicy::Bounded, record);
        }
        self.queue_anyway(node, record)
    }

    /// Returns false if the bound is soft and the calling thread already knows that the mailbox is congested. It is not
    /// inlined, so that the fast path stays one test of flags.
    #[inline(never)]
    fn must_ask(&self) -> bool {
        node_pool::known_congested() != self.address() || self.is_hard_bounded()
    }

    #[cold]
    fn queue_if_admitted(
        &'static self,
        node: NodeBox,
        policy: SendPolicy,
        record: Option<&SendRecord>,
    ) -> Result<(), Box<SendRefusal>> {
        simulated::note_sent(self.index());
        self.push_if_admitted(node, policy, record)?.map_or(Ok(()), |pushed| self.follow(pushed))
    }

    /// Pushes a node, if the bound of the mailbox permits. Returns `None` if the message needed no node of its own.
    fn push_if_admitted(
        &'static self,
        node: NodeBox,
        policy: SendPolicy,
        record: Option<&SendRecord>,
    ) -> Result<Option<Pushed>, Box<SendRefusal>> {
        let name = record.and_then(|_| node.name_of());
        match self.owner().map(|owner| owner.host.admit(self, node, policy)) {
            Some(Admission::Accepted(node)) => Ok(Some(self.push_recorded(node, record))),
            Some(Admission::Pushed(pushed)) => {
                if let Some(record) = record {
                    record.note(&pushed, name);
                }
                Ok(Some(pushed))
            }
            Some(Admission::Refused(envelope, why)) => Err(Box::new(SendRefusal(envelope, why))),
            Some(Admission::Taken) | None => Ok(None),
        }
    }

    /// Queues a node regardless of how full the mailbox is.
    #[inline(always)]
    fn queue_anyway(&'static self, node: NodeBox, record: Option<&SendRecord>) -> Result<(), Box<SendRefusal>> {
        simulated::note_sent(self.index());
        let pushed = self.push_recorded(node, record);
        self.follow(pushed)
    }

    #[inline(always)]
    fn push_recorded(&'static self, node: NodeBox, record: Option<&SendRecord>) -> Pushed {
        let name = record.and_then(|_| node.name_of());
        let pushed = self.push(node, || self.known());
        if let Some(record) = record {
            record.note(&pushed, name);
        }
        pushed
    }

    /// Puts a node into the data lane and leaves the rest of the send to [`follow`](Self::follow). For `known`, see
    /// [`push_data`](crate::mailbox::lanes::Lanes::push_data).
    #[inline(always)]
    pub(crate) fn push(&self, node: NodeBox, known: impl FnOnce() -> u64) -> Pushed {
        let (mine, mut sequence) = (node.as_ptr(), 0);
        let claim = self.lanes.push_data(node, known, |number| sequence = number);
        Pushed { mine, claim, sequence }
    }

    /// Completes a push: wakes the process if it was idle, and checks the length of its mailbox. May block or run user
    /// code.
    ///
    /// # Errors
    /// Returns the envelope, if the process has ended since it was looked up.
    #[inline(always)]
    pub(crate) fn follow(&'static self, pushed: Pushed) -> Result<(), Box<SendRefusal>> {
        if pushed.is_to_check() {
            self.check_length();
        }
        if let Some(token) = self.claimed(pushed)? {
            token.wake();
        }
        Ok(())
    }

    /// Returns the token of the process if the caller must wake it.
    ///
    /// # Errors
    /// Returns the same errors as [`follow`](Self::follow).
    #[inline(always)]
    pub(crate) fn claimed(&'static self, pushed: Pushed) -> Result<Option<Token>, Box<SendRefusal>> {
        match pushed.claim {
            Claim::Nothing if self.permit.is_kept_idle_after_push() => Ok(self.take_kept()),
            Claim::Nothing => Ok(None),
            Claim::Process => Ok(Some(Token(self))),
            Claim::Vacant => self.take_back(pushed.mine).map(|()| None),
        }
    }

    /// Returns the recorder of sends to `to`: `Some(None)` if they are not recorded, `None` if there is no such process
    /// here.
    #[inline]
    fn gate(&'static self, to: Pid) -> Option<Option<&'static Recorder>> {
        if self.carries_unrecorded(to) { Some(None) } else { self.recorder_of(to).map(Some) }
    }

    /// Returns the recorder of sends to `to`, if that process is alive here and its host is recorded.
    #[cold]
    #[inline(never)]
    fn recorder_of(&'static self, to: Pid) -> Option<&'static Recorder> {
        if self.carries(to) { self.owner()?.host.recorder() } else { None }
    }

    /// Returns the sequence number of a recent message, if the mailbox is too full; otherwise zero.
    #[cold]
    fn known(&'static self) -> u64 {
        if self.is_congested() { self.owner().map_or(0, |owner| owner.host.known(self)) } else { 0 }
    }

    /// Checks the length of the mailbox. Called after every batch of messages. If the mailbox is over its bound,
    /// suspends or blocks this sender.
    #[cold]
    pub(crate) fn check_length(&'static self) {
        if let Some(owner) = self.owner() {
            owner.host.check_length(self);
        }
    }

    /// Empties a vacant slot whose token the caller has taken. Returns the envelope in the node `mine` as an error.
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

#[cold]
fn unpack_refusal<M: Send + 'static>(SendRefusal(envelope, why): SendRefusal) -> (M, Option<Caller>, RefusalReason) {
    let (message, caller) = unpack(envelope);
    (message, caller, why)
}
