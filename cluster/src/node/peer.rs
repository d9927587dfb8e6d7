//! What this node has to do with one other: the session, and what waits for answers from there.

use super::inbox::{Inbox, Input};
use crate::clock::Moment;
use crate::codec::{Agreement, CodecError, Codecs, Encoded, MessageId, encode_call_error, encode_exit_reason};
use crate::engine::Lane;
use crate::envelope::{Content, ControlKind, Envelope, LinkKind};
use crate::frame::{DecodeError, Table};
use crate::reply::Completer;
use crate::session::{Event, Item, SendError, Session, Transmit};
use bytes::Bytes;
use postroom::error::SendFailure;
use postroom::routing::{Answerer, ControlMessage, LinkMessage, Receiver, Transport, Undeliverable};
use postroom::{CallError, ExitReason, NodeId, Package, Payload, Payloads, Pid};
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most packages that wait for a session to open.
const MAX_WAITING: usize = 1_024;

/// What came of a start elsewhere: the process, or why there is none.
pub(crate) type Started = Result<Pid, String>;

/// One session with another node, as the runtime's transport to it. A next session is another value.
pub(crate) struct Peer {
    node: NodeId,
    codecs: Codecs,
    inbox: Arc<Inbox>,
    state: Mutex<State>,
}

struct State {
    session: Session,
    phase: Phase,
    calls: BTreeMap<u64, Answerer>,
    starts: BTreeMap<u64, Completer<Started>>,
    last_number: u64,
    /// What may not be refused, and found the session's queue full: answers and links. All that follows in the data
    /// lane waits behind it.
    overflow: VecDeque<Bytes>,
    /// A PID for what is for the node and not for a process: no process has it.
    anyone: Pid,
    /// The driver knows that there is something to transmit.
    is_announced: bool,
}

enum Phase {
    /// It is not known yet what the peer understands.
    Opening(VecDeque<Waiting>),
    Open(Arc<Agreement>),
    Over,
}

/// What waits for the session to open, in order.
enum Waiting {
    Package(Package),
    Envelope(Lane, Envelope),
}

impl Peer {
    pub(crate) fn new(node: NodeId, codecs: Codecs, inbox: Arc<Inbox>, session: Session) -> Self {
        let nobody = u128::from(node.get()) << 80;
        let state = State {
            session,
            phase: Phase::Opening(VecDeque::new()),
            calls: BTreeMap::new(),
            starts: BTreeMap::new(),
            last_number: 0,
            overflow: VecDeque::new(),
            anyone: Pid::from_bytes(nobody.to_be_bytes()).unwrap_or_else(|| unreachable!("a node has a number")),
            is_announced: false,
        };
        Self { node, codecs, inbox, state: Mutex::new(state) }
    }

    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing of a user runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the driver transmit, once for all that is queued until it does.
    fn announce(&self, mut state: MutexGuard<'_, State>) {
        let is_first = !mem::replace(&mut state.is_announced, true);
        drop(state);
        if is_first {
            self.inbox.push(Input::Ready(self.node));
        }
    }

    /// Returns what the peer understands, if the session is open.
    pub(crate) fn agreement(&self) -> Option<Arc<Agreement>> {
        match &self.lock().phase {
            Phase::Open(agreement) => Some(Arc::clone(agreement)),
            Phase::Opening(_) | Phase::Over => None,
        }
    }

    /// Encodes a package and queues it.
    fn send(&self, agreement: &Agreement, package: Package) -> Result<(), Undeliverable> {
        let (to, mut payload, answerer) = package.take_apart();
        let refused = match agreement.encode(&mut payload) {
            Ok(encoded) => self.send_encoded(to, encoded, answerer),
            Err(_) => Err((answerer, SendFailure::NotRemote(to))),
        };
        refused.map_err(|(answerer, reason)| {
            let package = Package::put_together(to, payload, answerer);
            Undeliverable { package, reason }
        })
    }

    fn send_encoded(&self, to: Pid, encoded: Encoded, mut answerer: Answerer) -> Result<(), (Answerer, SendFailure)> {
        let (time_left, content) = (answerer.time_left(), content(encoded));
        let mut state = self.lock();
        let number = answerer.expects_answer().then(|| state.number());
        let envelope = match number {
            Some(number) => Envelope::Call { to, number, time_left, content },
            None => Envelope::Message { to, content },
        };
        if let Err(refusal) = state.queue(Lane::Data, to, &envelope) {
            drop(state);
            return Err((answerer, refusal.into_failure(to)));
        }
        answerer.note_sent();
        let sent = match number {
            Some(number) => {
                state.calls.insert(number, answerer);
                None
            }
            None => Some(answerer),
        };
        self.announce(state);
        // Outside the lock. The message is on its way, and nothing more is known of it.
        drop(sent);
        Ok(())
    }

    /// Queues what may not be refused. Returns false if the session is over.
    fn must_send(&self, lane: Lane, envelope: Envelope) -> bool {
        let mut state = self.lock();
        let is_queued = state.must_queue(lane, envelope);
        if is_queued {
            self.announce(state);
        }
        is_queued
    }

    /// Answers a call of the peer, which asked for `message`.
    pub(crate) fn answer(&self, number: u64, message: MessageId, result: Result<Payload, CallError>) {
        let agreement = self.agreement();
        let result = result.and_then(|mut value| {
            let encoded = agreement.map(|agreement| agreement.encode_answer(message, &mut value));
            // The message was handled, and the caller cannot be told what came of it.
            encoded.and_then(Result::ok).ok_or(CallError::Dropped)
        });
        self.must_send(
            Lane::Data,
            match result {
                Ok(encoded) => Envelope::Answer { number, content: content(encoded) },
                Err(error) => Envelope::Failed { number, error: encode_call_error(&error) },
            },
        );
    }

    pub(crate) fn answer_start(&self, number: u64, started: Started) {
        let envelope = match started {
            Ok(pid) => Envelope::Started { number, pid },
            Err(reason) => Envelope::Refused { number, reason },
        };
        self.must_send(Lane::Control, envelope);
    }

    /// Asks the peer to start a process.
    ///
    /// # Errors
    /// If the inputs do not fit.
    pub(crate) fn start(
        &self,
        process: &str,
        entry: &str,
        inputs: Payloads,
        then: Completer<Started>,
    ) -> Result<(), CodecError> {
        let Some(agreement) = self.agreement() else {
            then.complete(Err("there is no session with it yet".into()));
            return Ok(());
        };
        let encoded = agreement.encode_inputs(process, entry, inputs)?;
        let mut state = self.lock();
        let (number, anyone) = (state.number(), state.anyone);
        let envelope = Envelope::Start { number, content: content(encoded) };
        match state.queue(Lane::Control, anyone, &envelope) {
            Ok(()) => {
                state.starts.insert(number, then);
                self.announce(state);
            }
            Err(refusal) => {
                drop(state);
                then.complete(Err(refusal.into_text().into()));
            }
        }
        Ok(())
    }

    /// Passes a frame to the session.
    pub(crate) fn handle(&self, now: Moment, payload: Bytes) -> Result<(), DecodeError> {
        self.lock().session.handle(now, payload)
    }

    pub(crate) fn handle_timeout(&self, now: Moment) {
        self.lock().session.handle_timeout(now);
    }

    pub(crate) fn next_timeout(&self) -> Option<Moment> {
        self.lock().session.next_timeout()
    }

    pub(crate) fn poll_item(&self) -> Option<Item> {
        self.lock().session.poll_item()
    }

    pub(crate) fn poll_event(&self) -> Option<Event> {
        self.lock().session.poll_event()
    }

    /// The session is open: sends what waits, and then what comes. Returns how much of it cannot be sent.
    pub(crate) fn opened(&self, table: &Table) -> u64 {
        let agreement = Arc::new(self.codecs.agree(table));
        let mut returned = 0;
        loop {
            let mut state = self.lock();
            let Phase::Opening(waiting) = &mut state.phase else { return returned };
            let Some(next) = waiting.pop_front() else {
                state.phase = Phase::Open(agreement);
                return returned;
            };
            match next {
                Waiting::Envelope(lane, envelope) => {
                    state.put(lane, &envelope);
                    self.announce(state);
                }
                Waiting::Package(package) => {
                    drop(state);
                    // It was accepted, so a full queue does not refuse it: the queue has room for what may wait.
                    if let Err(refused) = self.send(&agreement, package) {
                        returned += 1;
                        let (_, _, answerer) = refused.package.take_apart();
                        answerer.answer(Err(refused.reason.into()));
                    }
                }
            }
        }
    }

    /// Returns the next frame.
    pub(crate) fn poll_transmit(&self, now: Moment) -> Option<Transmit> {
        let mut state = self.lock();
        state.flush();
        let frame = state.session.poll_transmit(now);
        if frame.is_none() {
            state.is_announced = false;
        }
        frame
    }

    /// Gives the credit of an item back.
    pub(crate) fn release(&self, lane: Lane, cost: u64) {
        let mut state = self.lock();
        state.session.release(lane, cost);
        self.announce(state);
    }

    /// Tells the peer whether a process of this node has fallen behind.
    pub(crate) fn set_slow(&self, pid: Pid, is_slow: bool) {
        let mut state = self.lock();
        if is_slow {
            state.session.slow(pid);
        } else {
            state.session.fast(pid);
        }
        self.announce(state);
    }

    pub(crate) fn close(&self, now: Moment) {
        let mut state = self.lock();
        state.session.close(now);
        self.announce(state);
    }

    pub(crate) fn abort(&self) {
        self.lock().session.abort();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lock().session.has_ended()
    }

    /// The session is over: fails what will not be answered.
    pub(crate) fn fail_all(&self) {
        let mut state = self.lock();
        let phase = mem::replace(&mut state.phase, Phase::Over);
        let (calls, starts) = (mem::take(&mut state.calls), mem::take(&mut state.starts));
        state.overflow.clear();
        drop(state);
        if let Phase::Opening(waiting) = phase {
            for waiting in waiting {
                if let Waiting::Package(package) = waiting {
                    let (_, _, answerer) = package.take_apart();
                    answerer.answer(Err(CallError::Gone(ExitReason::NodeLost)));
                }
            }
        }
        for (_, answerer) in calls {
            answerer.answer(Err(CallError::Died(ExitReason::NodeLost)));
        }
        for (_, then) in starts {
            then.complete(Err("it was lost before it answered; the process may have been started".into()));
        }
    }

    /// Takes a call that has been answered.
    pub(crate) fn take_call(&self, number: u64) -> Option<Answerer> {
        self.lock().calls.remove(&number)
    }

    pub(crate) fn take_start(&self, number: u64) -> Option<Completer<Started>> {
        self.lock().starts.remove(&number)
    }
}

fn content(encoded: Encoded) -> Content {
    Content { message: encoded.id.0, bytes: encoded.bytes }
}

/// Why an envelope was not queued.
enum Refusal {
    Full,
    Over,
    TooLong,
}

impl Refusal {
    fn into_failure(self, to: Pid) -> SendFailure {
        match self {
            Self::Full => SendFailure::Full(to),
            Self::Over => SendFailure::UnknownNode(to),
            Self::TooLong => SendFailure::NotRemote(to),
        }
    }

    fn into_text(self) -> &'static str {
        match self {
            Self::Full => "too much waits to be sent there; try again when some of it has been",
            Self::Over => "it was lost",
            Self::TooLong => "the inputs are too long to be sent there",
        }
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn queue(&mut self, lane: Lane, to: Pid, envelope: &Envelope) -> Result<(), Refusal> {
        if matches!(self.phase, Phase::Over) {
            return Err(Refusal::Over);
        }
        if lane == Lane::Data && !self.overflow.is_empty() {
            return Err(Refusal::Full);
        }
        self.session.send(lane, to, envelope.encode()).map_err(|error| match error {
            SendError::Full(_) | SendError::Slow(_) => Refusal::Full,
            SendError::Closed(_) => Refusal::Over,
            SendError::TooLong { .. } => Refusal::TooLong,
        })
    }

    /// Queues what may not be refused.
    fn must_queue(&mut self, lane: Lane, envelope: Envelope) -> bool {
        match &mut self.phase {
            Phase::Over => return false,
            Phase::Opening(waiting) => waiting.push_back(Waiting::Envelope(lane, envelope)),
            Phase::Open(_) => return self.put(lane, &envelope),
        }
        true
    }

    fn put(&mut self, lane: Lane, envelope: &Envelope) -> bool {
        let bytes = envelope.encode();
        match lane {
            Lane::Control => self.session.send(lane, self.anyone, bytes).is_ok(),
            Lane::Data => {
                self.overflow.push_back(bytes);
                self.flush();
                true
            }
        }
    }

    /// Moves what may not be refused into the session as far as that has room.
    fn flush(&mut self) {
        while let Some(bytes) = self.overflow.pop_front() {
            // Addressed to no process: what tells one that has fallen behind of an end is not refused.
            if let Err(SendError::Full(bytes)) = self.session.send(Lane::Data, self.anyone, bytes) {
                self.overflow.push_front(bytes);
                return;
            }
        }
    }
}

impl Receiver for Peer {
    fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
        let mut state = self.lock();
        let reason = match &mut state.phase {
            Phase::Open(agreement) => {
                let agreement = Arc::clone(agreement);
                drop(state);
                return self.send(&agreement, package);
            }
            Phase::Opening(waiting) if waiting.len() < MAX_WAITING => {
                waiting.push_back(Waiting::Package(package));
                return Ok(());
            }
            Phase::Opening(_) => SendFailure::Full(package.to()),
            Phase::Over => SendFailure::UnknownNode(package.to()),
        };
        Err(Undeliverable { package, reason })
    }
}

impl Transport for Peer {
    fn send_link(&self, from: Pid, to: Pid, message: LinkMessage<ExitReason>) -> Result<(), LinkMessage<ExitReason>> {
        let (link, number, why) = match &message {
            LinkMessage::Link => (LinkKind::Link, 0, None),
            LinkMessage::Unlink(number) => (LinkKind::Unlink, *number, None),
            LinkMessage::Unlinked(number) => (LinkKind::Unlinked, *number, None),
            LinkMessage::Watch(number) => (LinkKind::Watch, *number, None),
            LinkMessage::Unwatch(number) => (LinkKind::Unwatch, *number, None),
            LinkMessage::Down(number, why) => (LinkKind::Down, *number, Some(why)),
            LinkMessage::Exit(why) => (LinkKind::Exit, 0, Some(why)),
            LinkMessage::Failed(why) => (LinkKind::Failed, 0, Some(why)),
            // A process owns what it has spawned on its own node only.
            LinkMessage::Disowned => return Ok(()),
        };
        let reason = why.map_or_else(Bytes::new, encode_exit_reason);
        // In the data lane, behind the messages that came before it.
        let is_sent = self.must_send(Lane::Data, Envelope::Link { from, to, link, number, reason });
        if is_sent { Ok(()) } else { Err(message) }
    }

    fn control(&self, to: Pid, control: ControlMessage) -> bool {
        let (control, reason) = match &control {
            ControlMessage::Stop => (ControlKind::Stop, Bytes::new()),
            ControlMessage::Cancel(why) => (ControlKind::Cancel, encode_exit_reason(why)),
            ControlMessage::Kill => (ControlKind::Kill, Bytes::new()),
            _ => return false,
        };
        // A stop comes after the messages that were sent before it; the others overtake them.
        let lane = if control == ControlKind::Stop { Lane::Data } else { Lane::Control };
        self.must_send(lane, Envelope::Control { to, control, reason })
    }
}
