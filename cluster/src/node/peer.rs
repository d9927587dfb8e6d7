//! What this node has to do with one other: the session, and what waits for answers from there.

pub(crate) mod asks;
mod children;

use super::delivery::{Arrival, Arrivals, WakeLater};
use super::inbox::{Inbox, Input};
use super::overflow::{Overflow, Room, Why};
use crate::clock::Moment;
use crate::codec::{Agreement, CodecError, Codecs, Encoded, MessageId, encode_call_error, encode_exit_reason};
use crate::engine::{Engine, Lane, PublishError};
use crate::envelope::{Content, ControlKind, Envelope, LinkKind};
use crate::frame::{DecodeError, Table};
use crate::reply::Completer;
use crate::session::{Event, SendError, Session, Transmit};
use bytes::Bytes;
use postroom::error::SendFailure;
use postroom::routing::{
    Abandonment, Answerer, ControlMessage, LinkMessage, Receiver, Transport, TransportQueue, Undeliverable,
};
use postroom::{CallError, ExitReason, NodeId, Package, Payload, Payloads, Pid};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{mem, ops};

mod directory;

/// The most packages that wait for a session to open; twice as many with those of processes that are suspended for it.
const MAX_WAITING: usize = 1_024;

/// The most of the reason why a process was not started, in bytes.
const MAX_REASON: usize = 16 << 10;

/// How many bytes of answers may wait for room in the session before further calls are refused.
const MAX_OWED: usize = 16 << 20;

/// How many bytes may wait for room in the session in any case: answers, links, and what suspended processes have sent.
const MOST_OWED: usize = 64 << 20;

/// How often the open calls are searched for those whose callers have given up: none of them tells.
const LOOK_FOR_ABANDONED: Duration = Duration::from_millis(100);

/// How many calls are looked at each time, which bounds how long the lock is held.
const LOOK_AT_MOST: usize = 4_096;

/// What came of a start elsewhere: the process, or why there is none.
pub(crate) type Started = Result<Pid, NotStarted>;

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotStarted {
    /// In words, for people.
    Said(String),
    /// The node does not allow it.
    Denied,
    /// A process of another type was started with the key.
    KeyTaken { process: String },
}

impl From<&str> for NotStarted {
    fn from(reason: &str) -> Self {
        Self::Said(reason.to_owned())
    }
}

impl From<String> for NotStarted {
    fn from(reason: String) -> Self {
        Self::Said(reason)
    }
}

/// One session with another node, as the runtime's transport to it. A next session is another value.
pub(crate) struct Peer {
    node: NodeId,
    codecs: Codecs,
    port: Port,
    state: Mutex<State>,
}

/// Whether this node may send, by its lease: what the driver knows, for those that send.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<Option<Moment>>);

impl Gate {
    /// The node may send before this moment; not at all, if there is none.
    pub(crate) fn set(&self, until: Option<Moment>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    pub(crate) fn may_send(&self, now: Moment) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| now < until)
    }
}

/// Where frames to a peer go, and who is told.
#[derive(Clone)]
pub(crate) struct Port {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: SharedClock,
    pub(crate) gate: Arc<Gate>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) arrivals: Arc<Arrivals>,
    /// The subjects of the lanes.
    pub(crate) subjects: [String; 2],
}

/// The node's clock.
pub(crate) type SharedClock = Arc<dyn Fn() -> Moment + Send + Sync>;

struct State {
    session: Session,
    phase: Phase,
    calls: BTreeMap<u64, Answerer>,
    /// When to look for calls whose callers have given up, and behind which number.
    look_at: Option<Moment>,
    looked_to: u64,
    /// Calls of the peer that are not answered.
    answering: BTreeMap<u64, Abandonment>,
    starts: BTreeMap<u64, Completer<Started>>,
    children: children::Children,
    asks: asks::Asks,
    last_number: u64,
    /// What found the session's queue full. All that follows in the data lane waits behind it.
    overflow: Overflow,
    /// A PID for what is for the node and not for a process: no process has it.
    anyone: Pid,
    /// The driver knows that there is something to transmit.
    is_announced: bool,
    /// A frame that the engine was too busy for.
    held: Option<Transmit>,
    /// What the driver has not seen.
    events: VecDeque<Event>,
}

enum Phase {
    /// It is not known yet what the peer understands.
    Opening(VecDeque<Waiting>),
    Open(Arc<Agreement>),
    Over,
}

/// Whether a message is accepted for which there is no room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Admission {
    /// It is not.
    IfRoom,
    /// Up to a second bound: the sending process is suspended for it.
    Beyond,
    /// It was accepted before, and is not refused now.
    Accepted,
}

/// What waits for the session to open, in order.
enum Waiting {
    Package(Package),
    Envelope(Lane, Envelope),
}

impl Peer {
    pub(crate) fn new(node: NodeId, codecs: Codecs, port: Port, session: Session) -> Self {
        let nobody = u128::from(node.get()) << 80;
        let state = State {
            session,
            phase: Phase::Opening(VecDeque::new()),
            calls: BTreeMap::new(),
            look_at: None,
            looked_to: 0,
            answering: BTreeMap::new(),
            starts: BTreeMap::new(),
            children: children::Children::default(),
            asks: asks::Asks::default(),
            last_number: 0,
            overflow: Overflow::default(),
            anyone: Pid::from_bytes(nobody.to_be_bytes()).unwrap_or_else(|| unreachable!("a node has a number")),
            is_announced: false,
            held: None,
            events: VecDeque::new(),
        };
        Self { node, codecs, port, state: Mutex::new(state) }
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
            self.port.inbox.push(Input::Ready(self.node));
        }
    }

    /// Transmits what was just queued. If nothing else was on its way, at once, which saves a call the way through the
    /// driver; otherwise by the driver, so that many messages share a frame.
    fn transmit_queued(&self, mut state: MutexGuard<'_, State>, was_idle: bool) {
        if !was_idle || state.is_announced {
            return self.announce(state);
        }
        let is_busy = self.transmit_all(&mut state);
        self.done(state, is_busy);
    }

    /// Publishes the frames of the session. Returns whether the engine is too busy for one.
    fn transmit_all(&self, state: &mut State) -> bool {
        loop {
            let now = (self.port.clock)();
            let frame = match state.held.take() {
                Some(frame) => frame,
                None => {
                    state.flush();
                    let Some(frame) = state.session.poll_transmit(now) else { return false };
                    frame
                }
            };
            // With each frame: the lease may be over since the last.
            if !self.port.gate.may_send((self.port.clock)()) {
                // Until it is acquired, hellos are repeated; when it is over, so are the sessions.
                return false;
            }
            let subject = &self.port.subjects[frame.lane as usize];
            // Under the lock: engines do not block, and frames leave in their order.
            if self.port.engine.publish(frame.lane, subject, frame.payload.clone()) == Err(PublishError::Busy) {
                state.held = Some(frame);
                return true;
            }
            // What is lost otherwise is sent again, or the session ends.
        }
    }

    /// Publishes what is due, for the driver. Returns whether the engine is too busy.
    pub(crate) fn transmit(&self) -> bool {
        let mut state = self.lock();
        state.is_announced = false;
        let is_busy = self.transmit_all(&mut state);
        if !state.events.is_empty() {
            // Since the driver has looked.
            self.announce(state);
        }
        is_busy
    }

    /// Returns what the peer understands, if the session is open.
    pub(crate) fn agreement(&self) -> Option<Arc<Agreement>> {
        match &self.lock().phase {
            Phase::Open(agreement) => Some(Arc::clone(agreement)),
            Phase::Opening(_) | Phase::Over => None,
        }
    }

    /// Encodes a package and queues it.
    fn send(&self, agreement: &Agreement, package: Package, admission: Admission) -> Result<(), Undeliverable> {
        let (to, mut payload, answerer) = package.take_apart();
        let refused = match agreement.encode(&mut payload) {
            Ok(encoded) => self.send_encoded(to, encoded, answerer, admission),
            Err(error) => {
                self.codecs.report(&error);
                Err((answerer, SendFailure::NotRemote(to)))
            }
        };
        refused.map_err(|(answerer, reason)| {
            let package = Package::put_together(to, payload, answerer);
            Undeliverable { package, reason }
        })
    }

    fn send_encoded(
        &self,
        to: Pid,
        encoded: Encoded,
        mut answerer: Answerer,
        admission: Admission,
    ) -> Result<(), (Answerer, SendFailure)> {
        let (time_left, content) = (answerer.time_left(), content(encoded));
        let mut state = self.lock();
        let was_idle = state.is_idle();
        let number = answerer.expects_answer().then(|| state.number());
        let envelope = match number {
            Some(number) => Envelope::Call { to, number, time_left, content },
            None => Envelope::Message { to, content },
        };
        let queued = match admission {
            Admission::Accepted if state.put(Lane::Data, &envelope) => Ok(()),
            Admission::Accepted => Err(Refusal::TooLong),
            Admission::Beyond => state.queue_beyond(to, &envelope),
            Admission::IfRoom => state.queue(Lane::Data, to, &envelope),
        };
        if let Err(refusal) = queued {
            drop(state);
            return Err((answerer, refusal.into_failure(to)));
        }
        answerer.note_sent();
        let sent = match number {
            Some(number) => {
                state.calls.insert(number, answerer);
                if state.look_at.is_none() {
                    state.look_at = Some((self.port.clock)() + LOOK_FOR_ABANDONED);
                }
                None
            }
            None => Some(answerer),
        };
        self.transmit_queued(state, was_idle);
        // Outside the lock. The message is on its way, and nothing more is known of it.
        drop(sent);
        Ok(())
    }

    /// Sends an answer to a request, in the data lane, where what is owed is bounded: a peer that does not take its
    /// answers gets no more.
    pub(crate) fn say(&self, envelope: Envelope) {
        if !self.owes_too_much() {
            self.must_send(Lane::Data, envelope);
        }
    }

    /// Queues what may not be refused. Returns false if the session is over.
    fn must_send(&self, lane: Lane, envelope: Envelope) -> bool {
        let mut state = self.lock();
        let was_idle = state.is_idle();
        let is_queued = state.must_queue(lane, envelope);
        if is_queued {
            self.transmit_queued(state, was_idle);
        }
        is_queued
    }

    /// Notes a call of the peer, before it is delivered.
    pub(crate) fn begin_answering(&self, number: u64, abandonment: Abandonment) {
        self.lock().answering.insert(number, abandonment);
    }

    /// Answers a call that was noted, unless its caller has given up.
    pub(crate) fn answer_noted(&self, number: u64, message: MessageId, result: Result<Payload, CallError>) {
        let is_wanted = self.lock().answering.remove(&number).is_some();
        // What is dropped otherwise is a user's: outside the lock.
        if is_wanted {
            self.answer(number, message, result);
        }
    }

    /// The caller of a call of the peer has given up.
    pub(crate) fn abandoned(&self, number: u64) {
        let abandonment = self.lock().answering.remove(&number);
        if let Some(abandonment) = abandonment {
            abandonment.abandon();
        }
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
            Err(why) => why.into_envelope(number),
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
        key: Option<String>,
        then: Completer<Started>,
    ) -> Result<(), CodecError> {
        let Some(agreement) = self.agreement() else {
            then.complete(Err("there is no session with it yet".into()));
            return Ok(());
        };
        let encoded = agreement.encode_inputs(process, entry, inputs)?;
        let mut state = self.lock();
        let (number, anyone) = (state.number(), state.anyone);
        let content = content(encoded);
        let envelope = match key {
            None => Envelope::Start { number, content },
            Some(key) => Envelope::StartKeyed { number, key, content },
        };
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

    /// Passes a frame to the session, and what has arrived with it to the delivery. Called by the engine, so that a
    /// message does not wait for the driver; that is told if there is more to do.
    pub(crate) fn handle(self: &Arc<Self>, payload: Bytes) -> Result<(), DecodeError> {
        let mut wake = self.port.arrivals.wake_later();
        let mut state = self.lock();
        let handled = state.session.handle((self.port.clock)(), payload);
        if !matches!(state.phase, Phase::Open(_)) {
            // The driver reports the opening first.
            self.announce(state);
            return handled;
        }
        self.forward(&mut state, &mut wake);
        self.note_events(&mut state);
        let is_busy = self.transmit_all(&mut state);
        self.note_room(&mut state);
        self.done(state, is_busy);
        handled
    }

    /// Takes the events of the session: what is for the driver, and which processes have fallen behind or caught up.
    fn note_events(&self, state: &mut State) {
        while let Some(event) = state.session.poll_event() {
            match event {
                Event::Slow(pid) => state.overflow.slow(pid),
                Event::Fast(pid) => self.give(state.overflow.fast(pid)),
                event => state.events.push_back(event),
            }
        }
    }

    /// Has those that wait for room go on if there is some.
    fn note_room(&self, state: &mut State) {
        let (buffered, limit) = (state.session.buffered(Lane::Data).0, state.session.limits(Lane::Data).queue);
        self.give(state.overflow.room(buffered, limit));
    }

    /// By the delivery, which may run users' wakers.
    fn give(&self, room: Option<Room>) {
        if let Some(room) = room {
            self.port.arrivals.push(Arrival::Room(room));
        }
    }

    /// Tells the driver of what is left to do, and of when to come back.
    fn done(&self, state: MutexGuard<'_, State>, is_busy: bool) {
        if is_busy || !state.events.is_empty() {
            return self.announce(state);
        }
        let next = state.next_timeout();
        drop(state);
        if let Some(next) = next {
            self.port.inbox.remind(next);
        }
    }

    /// Hands what has arrived to the delivery: under the lock, so that it stays in order.
    fn forward(self: &Arc<Self>, state: &mut State, wake: &mut WakeLater<'_>) {
        while let Some(item) = state.session.poll_item() {
            wake.push(Arrival::Item(Arc::clone(self), item));
        }
    }

    pub(crate) fn handle_timeout(&self, now: Moment) {
        let mut state = self.lock();
        state.session.handle_timeout(now);
        let abandoned = state.take_abandoned(now);
        if !abandoned.is_empty() {
            self.port.arrivals.push(Arrival::Abandoned(abandoned));
        }
        drop(state);
        self.expire_asks(now);
    }

    pub(crate) fn next_timeout(&self) -> Option<Moment> {
        self.lock().next_timeout()
    }

    /// Returns the next event, when what has arrived before it was handed to the delivery.
    pub(crate) fn poll_event(self: &Arc<Self>) -> Option<Event> {
        let mut wake = self.port.arrivals.wake_later();
        let mut state = self.lock();
        if matches!(state.phase, Phase::Open(_)) {
            self.forward(&mut state, &mut wake);
        }
        self.note_events(&mut state);
        state.events.pop_front()
    }

    /// The session is open: sends what waits, and then what comes. Returns how much of it cannot be sent.
    pub(crate) fn opened(self: &Arc<Self>, table: &Table) -> u64 {
        let agreement = Arc::new(self.codecs.agree(table));
        let mut returned = 0;
        loop {
            let mut wake = self.port.arrivals.wake_later();
            let mut state = self.lock();
            let Phase::Opening(waiting) = &mut state.phase else { return returned };
            let Some(next) = waiting.pop_front() else {
                state.phase = Phase::Open(agreement);
                self.forward(&mut state, &mut wake);
                self.note_room(&mut state);
                self.announce(state);
                return returned;
            };
            match next {
                Waiting::Envelope(lane, envelope) => {
                    state.put(lane, &envelope);
                    self.announce(state);
                }
                Waiting::Package(package) => {
                    drop(state);
                    if let Err(refused) = self.send(&agreement, package, Admission::Accepted) {
                        returned += 1;
                        let (_, _, answerer) = refused.package.take_apart();
                        answerer.answer(Err(refused.reason.into()));
                    }
                }
            }
        }
    }

    /// Gives the credit of an item back.
    pub(crate) fn release(&self, lane: Lane, cost: u64) {
        let mut state = self.lock();
        state.session.release(lane, cost);
        let is_busy = self.transmit_all(&mut state);
        self.done(state, is_busy);
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

    /// Returns whether all that was accepted is in the session.
    pub(crate) fn is_flushed(&self) -> bool {
        let state = self.lock();
        !matches!(state.phase, Phase::Opening(_)) && state.overflow.is_empty()
    }

    /// Returns whether the end of the session was told.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.lock().phase, Phase::Over)
    }

    /// Returns whether so many answers wait for room that no more calls should be taken.
    pub(crate) fn owes_too_much(&self) -> bool {
        self.lock().overflow.owed() > MAX_OWED
    }

    /// Returns what there is of each thing that ends, for tests.
    #[cfg(any(test, feature = "test"))]
    pub(crate) fn books(&self) -> crate::testing::Books {
        let state = self.lock();
        let waiting = if let Phase::Opening(waiting) = &state.phase { waiting.len() } else { 0 };
        let queued = |lane| state.session.buffered(lane).0 as usize;
        let overflow = state.overflow.bytes();
        crate::testing::Books {
            calls: state.calls.len(),
            starts: state.starts.len(),
            waiting,
            bytes: queued(Lane::Data) + queued(Lane::Control) + overflow,
            ties: 0,
        }
    }

    /// Returns what no other session with this node has, for tests.
    #[cfg(any(test, feature = "test"))]
    pub(crate) fn identity(&self) -> (crate::frame::Epoch, crate::engine::Revision) {
        self.lock().session.identity()
    }

    /// The session is over: fails what will not be answered, and has those go on that wait for room. Returns how much
    /// was accepted without the peer's confirmation.
    pub(crate) fn fail_all(&self) -> u64 {
        let mut state = self.lock();
        let phase = mem::replace(&mut state.phase, Phase::Over);
        let (calls, starts) = (mem::take(&mut state.calls), mem::take(&mut state.starts));
        let answering = mem::take(&mut state.answering);
        state.look_at = None;
        let (rooms, dropped) = state.overflow.end();
        let mut unconfirmed = dropped + state.session.unconfirmed();
        drop(state);
        // Their callers have been told of the loss.
        answering.into_values().for_each(|abandonment| abandonment.abandon());
        // They try again, and hear of the loss.
        rooms.into_iter().for_each(Room::give);
        if let Phase::Opening(waiting) = phase {
            for waiting in waiting {
                if let Waiting::Package(package) = waiting {
                    unconfirmed += 1;
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
        self.lose_children();
        self.lose_asks();
        unconfirmed
    }

    /// Has the log say why a message of the peer was not decoded, if its build is another.
    pub(crate) fn report(&self, error: &CodecError) {
        self.codecs.report(error);
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
    /// Returns whether nothing waits to be sent or acknowledged.
    fn is_idle(&self) -> bool {
        self.overflow.is_empty() && Lane::ALL.iter().all(|lane| self.session.buffered(*lane).0 == 0)
    }

    fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    fn next_timeout(&self) -> Option<Moment> {
        self.session.next_timeout().into_iter().chain(self.look_at).chain(self.asks.next_timeout()).min()
    }

    /// Takes calls whose callers have given up, and tells the peer.
    fn take_abandoned(&mut self, now: Moment) -> Vec<Answerer> {
        if self.look_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let mut looked_at = 0;
        let after = (ops::Bound::Excluded(self.looked_to), ops::Bound::Unbounded);
        let numbers: Vec<_> = self
            .calls
            .range(after)
            .take(LOOK_AT_MOST)
            .inspect(|(number, _)| (looked_at, self.looked_to) = (looked_at + 1, **number))
            // Asks the caller's slot, or takes the lock that its answer goes through: neither comes back here.
            .filter(|(_, answerer)| answerer.is_abandoned())
            .map(|(number, _)| *number)
            .collect();
        if looked_at < LOOK_AT_MOST {
            self.looked_to = 0;
        }
        let mut abandoned = Vec::new();
        for number in numbers {
            abandoned.extend(self.calls.remove(&number));
            // Behind the call.
            self.put(Lane::Data, &Envelope::Abandon { number });
        }
        self.look_at = (!self.calls.is_empty()).then(|| now + LOOK_FOR_ABANDONED);
        abandoned
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Queues what may be refused; its sender then waits for room in the data lane, if that is what is missing.
    fn queue(&mut self, lane: Lane, to: Pid, envelope: &Envelope) -> Result<(), Refusal> {
        if matches!(self.phase, Phase::Over) {
            return Err(Refusal::Over);
        }
        if !self.overflow.is_clear(lane) {
            self.overflow.refuse(lane, to);
            return Err(Refusal::Full);
        }
        let bytes = envelope.encode();
        let length = bytes.len();
        match self.session.send(lane, to, bytes) {
            Ok(()) => {
                self.overflow.note_sent(length);
                Ok(())
            }
            Err(SendError::Full(_) | SendError::Slow(_)) => {
                self.overflow.refuse(lane, to);
                Err(Refusal::Full)
            }
            Err(SendError::Closed(_)) => Err(Refusal::Over),
            Err(SendError::TooLong { .. }) => Err(Refusal::TooLong),
        }
    }

    /// Queues a message of a process that waits for room after it.
    fn queue_beyond(&mut self, to: Pid, envelope: &Envelope) -> Result<(), Refusal> {
        if matches!(self.phase, Phase::Over) || self.session.is_closed() {
            return Err(Refusal::Over);
        }
        let (bytes, limits) = (envelope.encode(), self.session.limits(Lane::Data));
        if bytes.len() > limits.message {
            return Err(Refusal::TooLong);
        }
        if !self.overflow.admit_beyond(to, bytes.len(), limits.queue) {
            return Err(Refusal::Full);
        }
        self.overflow.note_sent(bytes.len());
        self.overflow.push(Lane::Data, bytes, Why::Beyond);
        self.flush();
        Ok(())
    }

    /// Queues what may not be refused. A peer that takes none of its answers loses the session, before they fill the
    /// memory.
    fn must_queue(&mut self, lane: Lane, envelope: Envelope) -> bool {
        if self.overflow.bytes() > MOST_OWED {
            self.session.abort();
        }
        match &mut self.phase {
            Phase::Over => return false,
            Phase::Opening(waiting) => waiting.push_back(Waiting::Envelope(lane, envelope)),
            Phase::Open(_) => return self.put(lane, &envelope),
        }
        true
    }

    /// Queues what may not be refused, behind what waits already.
    fn put(&mut self, lane: Lane, envelope: &Envelope) -> bool {
        let mut bytes = envelope.encode();
        if bytes.len() > self.session.longest(lane) {
            // Its caller is told that there is an answer, and not what.
            let Envelope::Answer { number, .. } = *envelope else { return false };
            bytes = Envelope::Failed { number, error: encode_call_error(&CallError::Dropped) }.encode();
        }
        self.overflow.push(lane, bytes, Why::Owed);
        self.flush();
        true
    }

    /// Moves what waits into the session as far as that has room.
    fn flush(&mut self) {
        self.overflow.flush(&mut self.session, self.anyone);
    }
}

impl Peer {
    /// Sends a package, or has it wait for the session to open.
    fn accept(&self, package: Package, admission: Admission) -> Result<(), Undeliverable> {
        let to = package.to();
        let mut state = self.lock();
        let waits = match &mut state.phase {
            Phase::Open(agreement) => {
                let agreement = Arc::clone(agreement);
                drop(state);
                return self.send(&agreement, package, admission);
            }
            Phase::Opening(waiting) => waiting,
            Phase::Over => return Err(Undeliverable { package, reason: SendFailure::UnknownNode(to) }),
        };
        let most = if admission == Admission::IfRoom { MAX_WAITING } else { 2 * MAX_WAITING };
        if waits.len() < most {
            waits.push_back(Waiting::Package(package));
            return Ok(());
        }
        state.overflow.refuse(Lane::Data, to);
        Err(Undeliverable { package, reason: SendFailure::Full(to) })
    }
}

impl Receiver for Peer {
    fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
        self.accept(package, Admission::IfRoom)
    }
}

impl Transport for Peer {
    fn queue(&self, to: Pid) -> Option<TransportQueue> {
        Some(self.lock().overflow.queue(to))
    }

    fn deliver_beyond(&self, package: Package) -> Result<(), Undeliverable> {
        self.accept(package, Admission::Beyond)
    }

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
