//! The session of this node with one other, and the operations that wait for answers from the other node.

mod admission;
mod asks;
mod calls;
mod child_table;
mod children;
mod directory;
mod gate;
pub(crate) mod open_asks;
mod sending;
mod starts;

use super::inbox::{Inbox, Input};
use super::overflow::{Overflow, Room, Why};
use crate::clock::Moment;
use crate::codec::{Agreement, CodecError, Codecs};
use crate::engine::{Engine, Lane, PublishError};
use crate::envelope::Envelope;
use crate::frame::{DecodeError, Table};
use crate::reply::Completer;
use crate::session::{Item, Session, SessionEvent, Transmit};
use crate::starts::Started;
use admission::{Admission, MOST_OWED};
use bytes::Bytes;
use child_table::ChildTable;
use open_asks::OpenAsks;
use postroom::routing::{Abandonment, Answerer};
use postroom::{CallError, ExitReason, NodeId, Package, Pid};
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use gate::{Gate, SharedClock};

/// One session with another node, as the runtime's transport to it. The next session with that node is another value.
pub(crate) struct Peer {
    node: NodeId,
    codecs: Codecs,
    port: Port,
    state: Mutex<PeerState>,
}

/// The means to send frames to a peer, and the components to notify.
#[derive(Clone)]
pub(crate) struct Port {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: SharedClock,
    pub(crate) gate: Arc<Gate>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) arrivals: Arc<dyn Arriving>,
    /// The subjects of the lanes.
    pub(crate) subjects: [String; 2],
}

/// Receives what arrives from peers, in order. The queue of the delivery does this. Each of the first three methods
/// returns whether the receiver must be woken.
pub(crate) trait Arriving: Send + Sync {
    /// Adds a message of the session with this peer.
    fn item(&self, from: Arc<Peer>, item: Item) -> bool;

    /// Adds room for senders that wait.
    fn room(&self, room: Room) -> bool;

    /// Adds calls whose callers have given up. The receiver drops them, since dropping them may resume a pool.
    fn abandoned(&self, calls: Vec<Answerer>) -> bool;

    fn wake(&self);
}

/// Adds what arrives from a peer, and wakes the receiver when dropped, if it must be woken.
///
/// Intended for code that holds the lock of a peer. A woken receiver first takes that lock, so if it were woken while
/// the lock is held, it would have to sleep again. So this value is created before the lock is taken, and dropped after
/// the lock is released.
struct WakingArrivals<'a> {
    receiver: &'a dyn Arriving,
    wakes: bool,
}

impl Drop for WakingArrivals<'_> {
    fn drop(&mut self) {
        if self.wakes {
            self.receiver.wake();
        }
    }
}

struct PeerState {
    session: Session,
    phase: Phase,
    calls: BTreeMap<u64, Answerer>,
    /// When to search for calls whose callers have given up.
    look_at: Option<Moment>,
    /// The number of the call after which the next search begins.
    looked_to: u64,
    /// Calls from the peer that are not answered yet.
    answering: BTreeMap<u64, Abandonment>,
    starts: BTreeMap<u64, Completer<Started>>,
    children: ChildTable,
    asks: OpenAsks,
    last_number: u64,
    /// Messages for which the session's queue had no room. All later messages of the data lane wait behind them.
    overflow: Overflow,
    /// [`MOST_OWED`], or a limit set by a test.
    most_owed: usize,
    /// A PID for messages to the node itself rather than to a process. No process has this PID.
    anyone: Pid,
    /// Whether the driver knows that there is something to transmit.
    is_announced: bool,
    /// A frame that the engine was too busy to accept.
    held: Option<Transmit>,
    /// Events that the driver has not taken yet.
    events: VecDeque<SessionEvent>,
    /// The number of the peer's starts that are not answered, and the total length of their inputs.
    waiting_starts: (usize, usize),
    /// Whether the session was ended because the peer requested or sent more than is stored for one peer.
    is_flooding: bool,
}

enum Phase {
    /// The messages that the peer understands are not known yet.
    Opening(VecDeque<AwaitingSession>),
    Open(Arc<Agreement>),
    Over,
}

/// An item that waits for the session to open. Items wait in order.
enum AwaitingSession {
    Package(Package),
    Envelope(Lane, Envelope),
}

/// Returns a PID for messages to a node and not to one of its processes.
pub(crate) fn anyone(node: NodeId) -> Pid {
    let no_process = u128::from(node.get()) << 80;
    Pid::from_bytes(no_process.to_be_bytes()).unwrap_or_else(|| unreachable!("a node has a number"))
}

impl Peer {
    pub(crate) fn new(node: NodeId, codecs: Codecs, port: Port, session: Session) -> Self {
        let state = PeerState {
            session,
            phase: Phase::Opening(VecDeque::new()),
            calls: BTreeMap::new(),
            look_at: None,
            looked_to: 0,
            answering: BTreeMap::new(),
            starts: BTreeMap::new(),
            children: ChildTable::default(),
            asks: OpenAsks::default(),
            last_number: 0,
            overflow: Overflow::default(),
            most_owed: MOST_OWED,
            anyone: anyone(node),
            is_announced: false,
            held: None,
            events: VecDeque::new(),
            waiting_starts: (0, 0),
            is_flooding: false,
        };
        Self { node, codecs, port, state: Mutex::new(state) }
    }

    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    fn lock(&self) -> MutexGuard<'_, PeerState> {
        // No user code runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the driver transmit, once for everything that is queued until then.
    fn announce(&self, mut state: MutexGuard<'_, PeerState>) {
        let is_first = !mem::replace(&mut state.is_announced, true);
        drop(state);
        if is_first {
            self.port.inbox.push(Input::Ready(self.node));
        }
    }

    /// Transmits a message that was just queued. If nothing else was in flight, the message is transmitted at once,
    /// which saves a call the detour through the driver. Otherwise the driver transmits it, so that many messages share
    /// a frame.
    fn transmit_queued(&self, mut state: MutexGuard<'_, PeerState>, was_idle: bool) {
        if !was_idle || state.is_announced {
            return self.announce(state);
        }
        let is_busy = self.transmit_all(&mut state);
        self.done(state, is_busy);
    }

    /// Publishes the frames of the session. Returns whether the engine is too busy for one.
    fn transmit_all(&self, state: &mut PeerState) -> bool {
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
            // Checked for each frame: the lease may have ended since the previous frame.
            if !self.port.gate.may_send((self.port.clock)()) {
                // Before the lease is acquired, hellos are repeated. Once it is over, the sessions are over too.
                return false;
            }
            let subject = &self.port.subjects[frame.lane as usize];
            // Publishing under the lock keeps the frames in order. It is safe because engines do not block.
            if self.port.engine.publish(frame.lane, subject, frame.payload.clone()) == Err(PublishError::Busy) {
                state.held = Some(frame);
                return true;
            }
            // Frames lost for other reasons are sent again, or the session ends.
        }
    }

    /// Publishes due frames, for the driver. Returns whether the engine is too busy.
    pub(crate) fn transmit(&self) -> bool {
        let mut state = self.lock();
        state.is_announced = false;
        let is_busy = self.transmit_all(&mut state);
        // Events that occurred while the peer was already announced, or during this transmission, have not been
        // announced separately.
        self.note_events(&mut state);
        if !state.events.is_empty() {
            self.announce(state);
        }
        is_busy
    }

    /// Returns the agreement with the peer, if the session is open.
    pub(crate) fn agreement(&self) -> Option<Arc<Agreement>> {
        match &self.lock().phase {
            Phase::Open(agreement) => Some(Arc::clone(agreement)),
            Phase::Opening(_) | Phase::Over => None,
        }
    }

    /// Passes a frame to the session, and the messages in it to the delivery. Called by the engine, so that a message
    /// does not wait for the driver. The driver is notified if there is more to do. Returns the number of replayed
    /// frames, which is one or zero.
    pub(crate) fn handle(self: &Arc<Self>, payload: Bytes) -> Result<u64, DecodeError> {
        let mut arrivals = self.arrivals();
        let mut state = self.lock();
        let before = state.session.replayed();
        let handled = state.session.handle((self.port.clock)(), payload);
        let handled = handled.map(|()| state.session.replayed() - before);
        if !matches!(state.phase, Phase::Open(_)) {
            // The driver has to report the opening first.
            self.announce(state);
            return handled;
        }
        self.forward(&mut state, &mut arrivals);
        self.note_events(&mut state);
        let is_busy = self.transmit_all(&mut state);
        self.note_room(&mut state);
        self.done(state, is_busy);
        handled
    }

    /// Takes the events of the session: queues those for the driver, and records which processes fall behind or catch
    /// up.
    fn note_events(&self, state: &mut PeerState) {
        while let Some(event) = state.session.poll_event() {
            match event {
                SessionEvent::Slow(pid) => state.overflow.slow(pid),
                SessionEvent::Fast(pid) => self.give(state.overflow.fast(pid)),
                event => state.events.push_back(event),
            }
        }
    }

    /// Resumes senders that wait for room, if there is room.
    fn note_room(&self, state: &mut PeerState) {
        let (buffered, limit) = (state.session.buffered(Lane::Data).0, state.session.limits(Lane::Data).queue);
        self.give(state.overflow.room(buffered, limit));
    }

    /// Passes room to the delivery. Unlike this code, the delivery may run user wakers.
    fn give(&self, room: Option<Room>) {
        if let Some(room) = room {
            let mut arrivals = self.arrivals();
            arrivals.wakes |= arrivals.receiver.room(room);
        }
    }

    /// Notifies the driver of remaining work, or of the next timeout.
    fn done(&self, state: MutexGuard<'_, PeerState>, is_busy: bool) {
        if is_busy || !state.events.is_empty() {
            return self.announce(state);
        }
        let next = state.next_timeout();
        drop(state);
        if let Some(next) = next {
            self.port.inbox.remind(self.node, next);
        }
    }

    fn arrivals(&self) -> WakingArrivals<'_> {
        WakingArrivals { receiver: &*self.port.arrivals, wakes: false }
    }

    /// Passes received messages to the delivery, under the lock so that they stay in order.
    fn forward(self: &Arc<Self>, state: &mut PeerState, arrivals: &mut WakingArrivals<'_>) {
        while let Some(item) = state.session.poll_item() {
            arrivals.wakes |= arrivals.receiver.item(Arc::clone(self), item);
        }
    }

    pub(crate) fn handle_timeout(&self, now: Moment) {
        let mut state = self.lock();
        state.session.handle_timeout(now);
        let abandoned = state.take_abandoned(now);
        if !abandoned.is_empty() {
            let mut arrivals = self.arrivals();
            arrivals.wakes |= arrivals.receiver.abandoned(abandoned);
        }
        drop(state);
        self.expire_asks(now);
    }

    pub(crate) fn next_timeout(&self) -> Option<Moment> {
        self.lock().next_timeout()
    }

    /// Returns the next event, after all messages that arrived before it were passed to the delivery.
    pub(crate) fn poll_event(self: &Arc<Self>) -> Option<SessionEvent> {
        let mut arrivals = self.arrivals();
        let mut state = self.lock();
        if matches!(state.phase, Phase::Open(_)) {
            self.forward(&mut state, &mut arrivals);
        }
        self.note_events(&mut state);
        state.events.pop_front()
    }

    /// Opens the session, and sends the waiting messages before any later ones. Returns the number of waiting messages
    /// that could not be sent.
    pub(crate) fn opened(self: &Arc<Self>, table: &Table) -> u64 {
        let agreement = Arc::new(self.codecs.agree(table));
        let mut returned = 0;
        loop {
            let mut arrivals = self.arrivals();
            let mut state = self.lock();
            let Phase::Opening(waiting) = &mut state.phase else { return returned };
            let Some(next) = waiting.pop_front() else {
                state.phase = Phase::Open(agreement);
                self.forward(&mut state, &mut arrivals);
                self.note_room(&mut state);
                self.announce(state);
                return returned;
            };
            match next {
                AwaitingSession::Envelope(lane, envelope) => {
                    state.must_put(lane, &envelope, Why::Accepted);
                    self.announce(state);
                }
                AwaitingSession::Package(package) => {
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

    /// Returns the credit of an item to the peer.
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

    /// Returns whether all accepted messages are in the session.
    pub(crate) fn is_flushed(&self) -> bool {
        let state = self.lock();
        !matches!(state.phase, Phase::Opening(_)) && state.overflow.is_empty()
    }

    /// Returns whether the end of the session was reported.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.lock().phase, Phase::Over)
    }

    /// Returns the counts of open operations, for tests.
    #[cfg(any(test, feature = "test"))]
    pub(crate) fn books(&self) -> super::books::Books {
        let state = self.lock();
        let waiting = if let Phase::Opening(waiting) = &state.phase { waiting.len() } else { 0 };
        let queued = |lane| state.session.buffered(lane).0 as usize;
        let overflow = state.overflow.bytes();
        super::books::Books {
            calls: state.calls.len(),
            starts: state.starts.len(),
            waiting,
            bytes: queued(Lane::Data) + queued(Lane::Control) + overflow,
            ties: 0,
        }
    }

    /// Returns an identity that no other session with this node has, for tests.
    #[cfg(any(test, feature = "test"))]
    pub(crate) fn identity(&self) -> (crate::frame::Epoch, crate::store::Revision) {
        self.lock().session.identity()
    }

    /// Fails all unanswered operations and resumes the senders that wait for room: the session is over. Returns the
    /// number of messages that were accepted but not confirmed by the peer.
    pub(crate) fn fail_all(&self) -> u64 {
        let mut state = self.lock();
        let phase = mem::replace(&mut state.phase, Phase::Over);
        let (calls, starts) = (mem::take(&mut state.calls), mem::take(&mut state.starts));
        let answering = mem::take(&mut state.answering);
        state.look_at = None;
        let (rooms, dropped) = state.overflow.end();
        let mut unconfirmed = dropped + state.session.unconfirmed();
        drop(state);
        // The callers have been notified of the loss.
        answering.into_values().for_each(|abandonment| abandonment.abandon());
        // The resumed senders try again, and learn of the loss.
        rooms.into_iter().for_each(Room::give);
        if let Phase::Opening(waiting) = phase {
            for waiting in waiting {
                if let AwaitingSession::Package(package) = waiting {
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

    /// Logs why a message from the peer could not be decoded, once for each cause.
    pub(crate) fn report(&self, error: &CodecError) {
        self.codecs.report(error);
    }
}

impl PeerState {
    /// Returns whether no message waits to be sent or acknowledged.
    fn is_idle(&self) -> bool {
        self.overflow.is_empty() && Lane::ALL.iter().all(|lane| self.session.buffered(*lane).0 == 0)
    }

    fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    fn next_timeout(&self) -> Option<Moment> {
        self.session.next_timeout().into_iter().chain(self.look_at).chain(self.asks.next_timeout()).min()
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}
