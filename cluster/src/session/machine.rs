//! The session as a whole: selection of the next frame, and handling of frames and timeouts.

use super::handshake::{Greeting, Handshake, Repeated};
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use super::{
    Config, END_AFTER, Item, KEEPALIVE, LINGER, LaneLimits, MAX_SLOW, SUSPECT_AFTER, SendError, SessionEnd,
    SessionEvent,
};
use crate::clock::Moment;
use crate::engine::Lane;
use crate::frame::{Body, DecodeError, EndCode, Epoch, Frame, Hello, MAX_FRAME, Parcel, Segment, Table};
use crate::store::Revision;
use bytes::Bytes;
use postroom::Pid;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The interval at which an overdue answer is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// One node's half of a session with one peer. The head of the [module](super) describes the protocol.
///
/// ```
/// use postroom_cluster::clock::Moment;
/// use postroom_cluster::engine::Lane;
/// use postroom_cluster::store::Revision;
/// use postroom_cluster::frame::{Epoch, Table};
/// use postroom_cluster::session::{Config, Session, SessionEvent};
///
/// let now = Moment::START;
/// let [first, second] = [Revision(1), Revision(2)]; // of the nodes' records
/// let epoch = |revision| Epoch::new(revision, 0).unwrap();
/// let mut here = Session::new(Config::default(), epoch(first), second, Table::default(), now);
/// let mut there = Session::new(Config::default(), epoch(second), first, Table::default(), now);
///
/// let pid = "<2.0.5.1>".parse().unwrap();
/// here.send(Lane::Data, pid, "good morning".into()).unwrap();
/// for _ in 0..3 {
///     while let Some(frame) = here.poll_transmit(now) {
///         there.handle(now, frame.payload).unwrap();
///     }
///     while let Some(frame) = there.poll_transmit(now) {
///         here.handle(now, frame.payload).unwrap();
///     }
/// }
/// assert!(matches!(there.poll_event(), Some(SessionEvent::Opened { minor: 0, .. })));
/// let item = there.poll_item().unwrap();
/// assert_eq!(item.bytes, "good morning");
/// there.release(item.lane, item.cost);
/// ```
pub struct Session {
    config: Config,
    table: Table,
    handshake: Handshake,
    hello: Repeated,
    outgoing: [Outgoing; 2],
    incoming: [Incoming; 2],
    /// Processes of the peer that have fallen behind.
    slow: BTreeSet<Pid>,
    /// Processes of this node that have fallen behind. The peer knows of them, or will be told.
    told_slow: BTreeSet<Pid>,
    /// Notices that are not queued yet: for each process, whether it is slow. Only the latest state is kept.
    notices: BTreeMap<Pid, bool>,
    /// Whether the peer has confirmed that this side leaves; `None` if this side does not leave.
    leaving: Option<bool>,
    goodbye: Repeated,
    linger_until: Option<Moment>,
    /// The numbers in the peer's goodbye: the peer leaves when all parcels before them have arrived.
    peer_finals: Option<[u64; 2]>,
    last_heard: Moment,
    /// The time since which the peer has owed an answer.
    asked_at: Option<Moment>,
    ask_again_at: Moment,
    suspected: bool,
    /// The end to announce to the peer, and the peer's epoch.
    farewell: Option<(EndCode, Epoch)>,
    events: VecDeque<SessionEvent>,
    end: Option<SessionEnd>,
    end_reported: bool,
    /// The answer to frames from the peer that arrive after the end.
    parting: EndCode,
    /// Number of messages of the data lane that were not acknowledged at the end.
    unconfirmed: u64,
    /// Number of frames that were repeated, or that belong to an earlier session.
    replayed: u64,
}

/// A frame to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The lane to publish it in.
    pub lane: Lane,
    /// The frame.
    pub payload: Bytes,
}

impl Session {
    /// Begins a session with the node whose record in the store has revision `peer`. `local` must be greater than the
    /// epochs of all earlier sessions of this node with that node.
    ///
    /// # Panics
    /// If a window is too small for a parcel.
    pub fn new(config: Config, local: Epoch, peer: Revision, table: Table, now: Moment) -> Self {
        assert!(config.data.have_room() && config.control.have_room(), "a window has room for each parcel");
        let mut hello = Repeated::default();
        hello.start();
        Self {
            config,
            table,
            handshake: Handshake::new(local, peer),
            hello,
            outgoing: [Lane::Data, Lane::Control].map(|lane| Outgoing::new(config.limits(lane))),
            incoming: [Lane::Data, Lane::Control].map(|lane| Incoming::new(lane, config.limits(lane))),
            slow: BTreeSet::new(),
            told_slow: BTreeSet::new(),
            notices: BTreeMap::new(),
            leaving: None,
            goodbye: Repeated::default(),
            linger_until: None,
            peer_finals: None,
            last_heard: now,
            asked_at: Some(now),
            ask_again_at: now + ASK_AGAIN,
            suspected: false,
            farewell: None,
            events: VecDeque::new(),
            end: None,
            end_reported: false,
            parting: EndCode::Unknown,
            unconfirmed: 0,
            replayed: 0,
        }
    }

    /// Queues a message for process `to` of the peer, even before the session is open.
    ///
    /// # Errors
    /// If the message was not queued; the error returns it.
    pub fn send(&mut self, lane: Lane, to: Pid, message: Bytes) -> Result<(), SendError> {
        if self.is_closed() {
            return Err(SendError::Closed(message));
        }
        if lane == Lane::Data && self.slow.contains(&to) {
            return Err(SendError::Slow(message));
        }
        self.outgoing[index(lane)].push(message)
    }

    /// Tells the peer that process `pid` of this node has fallen behind.
    pub fn slow(&mut self, pid: Pid) {
        if self.told_slow.len() < MAX_SLOW && self.told_slow.insert(pid) {
            self.notices.insert(pid, true);
        }
    }

    /// Tells the peer that process `pid` has caught up, or ended.
    pub fn fast(&mut self, pid: Pid) {
        if self.told_slow.remove(&pid) {
            self.notices.insert(pid, false);
        }
    }

    /// Returns the number of frames that were dropped because all their parcels had arrived before, or because they
    /// belong to an earlier session. The peer sends such frames when an acknowledgement was lost; an attacker who has
    /// recorded frames may send them too.
    pub fn replayed(&self) -> u64 {
        self.replayed
    }

    /// Handles a frame from the peer. The caller knows its sender from the subject.
    ///
    /// # Errors
    /// If the payload is not a valid frame. Such a payload changes nothing. A frame of another major version ends a
    /// session that is not open: [`SessionEnd::Version`].
    pub fn handle(&mut self, now: Moment, payload: Bytes) -> Result<(), DecodeError> {
        let frame = match Frame::decode(payload) {
            Err(DecodeError::Version(error)) if !self.handshake.is_confirmed() && self.end.is_none() => {
                self.finish(SessionEnd::Version(error), None);
                return Ok(());
            }
            frame => frame?,
        };
        let Frame { from, to, body } = frame;
        if self.end.is_some() {
            if to == Some(self.handshake.local()) && !matches!(body, Body::End(_)) {
                self.farewell = Some((self.parting, from));
            }
            return Ok(());
        }
        match body {
            Body::Hello(hello) => self.on_hello(now, from, to, hello),
            // A refusal may arrive before anything is known about the peer.
            Body::End(code)
                if to == Some(self.handshake.local()) && self.handshake.remote().is_none_or(|r| r == from) =>
            {
                self.on_end(code);
            }
            Body::End(_) => {}
            body if self.handshake.is_ours(from, to) => {
                self.heard(now);
                self.confirm();
                match body {
                    Body::Segment(segment) => self.on_segment(now, segment),
                    Body::Goodbye(finals) => self.on_goodbye(finals),
                    Body::Hello(_) | Body::End(_) => unreachable!("they are handled above"),
                }
            }
            // This is a frame of another session. If the peer takes this session for an earlier one of this node, a
            // hello is already on its way to the peer.
            _ => {
                let is_earlier = self.handshake.remote().is_some_and(|remote| from < remote)
                    || to.is_some_and(|to| to < self.handshake.local());
                self.replayed += u64::from(is_earlier);
            }
        }
        Ok(())
    }

    fn on_hello(&mut self, now: Moment, from: Epoch, to: Option<Epoch>, hello: Hello) {
        let versions = hello.versions;
        match self.handshake.on_hello(from, to, hello) {
            Greeting::Late => {}
            Greeting::Restarted => self.finish(SessionEnd::Restarted, None),
            greeting => {
                if let Err(error) = self.config.versions.agree(versions) {
                    self.finish(SessionEnd::Version(error), Some((EndCode::Version, from)));
                    return;
                }
                if greeting == Greeting::Unknown {
                    // This does not count as an answer: if the peer never learns this side's epoch, the session has to
                    // end.
                    self.hello.send_now();
                } else {
                    self.heard(now);
                    self.confirm();
                    // Any segment tells the peer that this side knows it.
                    self.incoming[index(Lane::Control)].answer_now();
                }
            }
        }
    }

    /// Records that the peer knows this side. That opens the session.
    fn confirm(&mut self) {
        let Some(hello) = self.handshake.confirm() else { return };
        for (outgoing, credit) in self.outgoing.iter_mut().zip(hello.credit) {
            outgoing.allow(credit);
        }
        let minor = self.config.versions.minor.min(hello.versions.minor);
        let features = self.config.features & hello.features;
        self.events.push_back(SessionEvent::Opened { minor, features, table: hello.table.clone() });
        self.hello.stop();
    }

    fn on_segment(&mut self, now: Moment, segment: Segment) {
        let lane = index(segment.lane);
        self.outgoing[lane].allow(segment.credit);
        if self.outgoing[lane].on_ack(now, segment.ack, segment.nack).is_err() {
            return self.violation("it acknowledged what was never sent");
        }
        match self.incoming[lane].on_segment(now, segment) {
            Ok(is_repeated) => self.replayed += u64::from(is_repeated),
            Err(what) => return self.violation(what),
        }
        self.finish_if_left();
    }

    fn on_goodbye(&mut self, finals: [u64; 2]) {
        if self.peer_finals.is_some_and(|heard| heard != finals) {
            return self.violation("it said goodbye twice, with different numbers");
        }
        self.peer_finals = Some(finals);
        if self.has_all()
            && let Some(remote) = self.handshake.remote()
        {
            self.farewell = Some((EndCode::Done, remote));
        }
        self.finish_if_left();
    }

    fn on_end(&mut self, code: EndCode) {
        match (code, self.leaving) {
            (EndCode::Done, Some(_)) => {
                self.leaving = Some(true);
                self.finish_if_left();
            }
            // The answer was lost, and the peer has nothing left that would repeat it.
            (_, Some(_)) => self.finish(SessionEnd::Closed { delivered: false }, None),
            (_, None) => self.finish(SessionEnd::Peer(code), None),
        }
    }

    /// Returns true if the peer leaves and everything that it sent has arrived.
    fn has_all(&self) -> bool {
        self.peer_finals
            .is_some_and(|finals| self.incoming.iter().zip(finals).all(|(half, end)| half.expected() == end))
    }

    /// Ends the session if each leaving side has delivered everything.
    fn finish_if_left(&mut self) {
        if let Some(finals) = self.peer_finals
            && self.incoming.iter().zip(finals).any(|(half, end)| half.expected() > end)
        {
            return self.violation("it sent more after its goodbye");
        }
        let done = self.handshake.remote().filter(|_| self.has_all()).map(|remote| (EndCode::Done, remote));
        match (self.leaving, self.peer_finals) {
            (None, Some(_)) if done.is_some() => self.finish(SessionEnd::Left, done),
            (Some(true), None) => self.finish(SessionEnd::Closed { delivered: true }, None),
            (Some(true), Some(_)) if done.is_some() => self.finish(SessionEnd::Closed { delivered: true }, done),
            _ => {}
        }
    }

    fn violation(&mut self, what: &'static str) {
        self.end_with(SessionEnd::Violation(what), EndCode::Violation);
    }

    fn end_with(&mut self, end: SessionEnd, code: EndCode) {
        let farewell = self.handshake.remote().map(|remote| (code, remote));
        self.finish(end, farewell);
    }

    /// Ends the session, once. Messages that have arrived completely can still be taken.
    fn finish(&mut self, end: SessionEnd, farewell: Option<(EndCode, Epoch)>) {
        if self.end.is_some() {
            return;
        }
        self.end = Some(end);
        self.parting = farewell.map_or(EndCode::Unknown, |(code, _)| code);
        self.farewell = farewell;
        self.unconfirmed = self.outgoing[index(Lane::Data)].messages();
        self.outgoing.iter_mut().for_each(Outgoing::clear);
        self.slow.clear();
        self.told_slow.clear();
        self.notices.clear();
    }

    /// Returns the next frame to publish.
    ///
    /// The frame counts as sent. If the engine is busy, keep the frame and publish it before the next one: dropping it
    /// would lose no message, but would delay some.
    pub fn poll_transmit(&mut self, now: Moment) -> Option<Transmit> {
        if let Some((code, to)) = self.farewell.take() {
            return Some(self.transmit_to(Some(to), Lane::Control, Body::End(code)));
        }
        if self.end.is_some() {
            return None;
        }
        if self.hello.take(now) {
            let credit = [self.config.data.window, self.config.control.window];
            let (versions, features, table) = (self.config.versions, self.config.features, self.table.clone());
            return Some(self.transmit(Lane::Control, Body::Hello(Hello { versions, features, credit, table })));
        }
        if !self.handshake.is_confirmed() {
            return None;
        }
        if self.goodbye.take(now) {
            let finals = [self.outgoing[0].end(), self.outgoing[1].end()];
            return Some(self.transmit(Lane::Control, Body::Goodbye(finals)));
        }
        self.queue_notices();
        [Lane::Control, Lane::Data].into_iter().find_map(|lane| self.segment(now, lane))
    }

    /// Queues notices while the queue has room. The remaining notices wait outside the queue, at most one per process,
    /// so their number is bounded.
    fn queue_notices(&mut self) {
        let outgoing = &mut self.outgoing[index(Lane::Control)];
        // Nothing is queued after a goodbye.
        while self.leaving.is_none()
            && outgoing.has_room()
            && let Some((pid, is_slow)) = self.notices.pop_first()
        {
            outgoing.push_parcel(if is_slow { Parcel::Slow(pid) } else { Parcel::Fast(pid) });
        }
    }

    fn segment(&mut self, now: Moment, lane: Lane) -> Option<Transmit> {
        let (outgoing, incoming) = (&mut self.outgoing[index(lane)], &mut self.incoming[index(lane)]);
        outgoing.arm(now);
        if !(outgoing.is_ready() || outgoing.ask || incoming.wants_ack(now)) {
            return None;
        }
        let ask = std::mem::take(&mut outgoing.ask);
        let (first, parcels) = outgoing.fill(now, MAX_FRAME - Segment::EMPTY_LEN);
        let (ack, credit, nack) = incoming.acknowledge();
        if ask || !parcels.is_empty() {
            self.asked(now);
        }
        Some(self.transmit(lane, Body::Segment(Segment { lane, nack, ask, ack, credit, first, parcels })))
    }

    fn transmit(&self, lane: Lane, body: Body) -> Transmit {
        self.transmit_to(self.handshake.remote(), lane, body)
    }

    fn transmit_to(&self, to: Option<Epoch>, lane: Lane, body: Body) -> Transmit {
        Transmit { lane, payload: Frame { from: self.handshake.local(), to, body }.encode() }
    }

    /// Returns the next message from the peer. Messages of the control lane come first. Each message must be
    /// [released](Self::release).
    pub fn poll_item(&mut self) -> Option<Item> {
        let [data, control] = &mut self.incoming;
        control.next_item().or_else(|| data.next_item())
    }

    /// Gives the peer back the credit that an item of this lane occupied, because the message has been delivered, or is
    /// stored where another limit applies.
    ///
    /// # Panics
    /// If more is released than items have occupied.
    pub fn release(&mut self, lane: Lane, cost: u64) {
        self.incoming[index(lane)].release(cost);
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        while let Some(notice) = self.incoming[index(Lane::Control)].next_notice() {
            if self.end.is_some() {
                continue;
            }
            if !notice.is_slow {
                if self.slow.remove(&notice.pid) {
                    return Some(SessionEvent::Fast(notice.pid));
                }
            } else if self.slow.len() == 2 * MAX_SLOW {
                // Twice the limit: a peer may report in any order that all have caught up and as many others have
                // fallen behind.
                self.violation("it has more slow processes than there may be");
            } else if self.slow.insert(notice.pid) {
                return Some(SessionEvent::Slow(notice.pid));
            }
        }
        if self.end_reported || self.incoming.iter().any(Incoming::has_items) {
            return None;
        }
        let end = self.end.clone()?;
        self.end_reported = true;
        Some(SessionEvent::Ended(end))
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has to be called.
    pub fn next_timeout(&self) -> Option<Moment> {
        if self.end.is_some() {
            return None;
        }
        let silence = match self.asked_at {
            None => self.last_heard + KEEPALIVE,
            Some(at) if self.suspected => self.ask_again_at.min(at + END_AFTER),
            Some(at) => self.ask_again_at.min(at + SUSPECT_AFTER),
        };
        let halves = self.outgoing.iter().map(Outgoing::next_timeout);
        let stalls = self.outgoing.iter().map(|half| half.waiting_since.map(|since| since + END_AFTER));
        let acks = self.incoming.iter().map(Incoming::next_timeout);
        let repeats = [self.hello.next_timeout(), self.goodbye.next_timeout(), self.linger_until, Some(silence)];
        halves.chain(stalls).chain(acks).chain(repeats).flatten().min()
    }

    /// Performs the actions that are due by `now`.
    pub fn handle_timeout(&mut self, now: Moment) {
        if self.end.is_some() {
            return;
        }
        self.hello.handle_timeout(now);
        self.goodbye.handle_timeout(now);
        self.outgoing.iter_mut().for_each(|half| half.handle_timeout(now));
        if self.linger_until.is_some_and(|until| until <= now) {
            self.end_with(SessionEnd::Closed { delivered: false }, EndCode::Aborted);
        } else if self.outgoing.iter().any(|half| half.waiting_since.is_some_and(|since| since + END_AFTER <= now)) {
            let is_silent = now.since(self.last_heard) >= END_AFTER;
            self.end_with(if is_silent { SessionEnd::Silent } else { SessionEnd::Stalled }, EndCode::Aborted);
        } else if let Some(asked_at) = self.asked_at {
            if asked_at + END_AFTER <= now {
                self.end_with(SessionEnd::Silent, EndCode::Aborted);
            } else {
                self.insist(now, asked_at);
            }
        } else if self.last_heard + KEEPALIVE <= now {
            self.asked(now);
            self.outgoing[index(Lane::Control)].ask = true;
        }
    }

    /// Asks again for an overdue answer, and reports the suspicion once.
    fn insist(&mut self, now: Moment, asked_at: Moment) {
        if self.ask_again_at <= now {
            self.ask_again_at = now + ASK_AGAIN;
            self.outgoing[index(Lane::Control)].ask = true;
        }
        if asked_at + SUSPECT_AFTER <= now && !std::mem::replace(&mut self.suspected, true) {
            self.events.push_back(SessionEvent::Suspect);
        }
    }

    /// Records that the peer owes an answer from now on, unless it already does.
    fn asked(&mut self, now: Moment) {
        if self.asked_at.is_none() {
            self.asked_at = Some(now);
            self.ask_again_at = now + ASK_AGAIN;
        }
    }

    fn heard(&mut self, now: Moment) {
        self.last_heard = now;
        self.asked_at = None;
        self.suspected = false;
    }

    /// Leaves the session: queued messages are still sent, and [`SessionEnd::Closed`] follows.
    pub fn close(&mut self, now: Moment) {
        if self.end.is_some() || self.leaving.is_some() {
            return;
        }
        if !self.handshake.is_confirmed() {
            let delivered = self.outgoing.iter().all(|half| half.queued() == 0);
            return self.end_with(SessionEnd::Closed { delivered }, EndCode::Aborted);
        }
        self.leaving = Some(false);
        self.goodbye.start();
        self.linger_until = Some(now + LINGER);
    }

    /// Ends the session at once: the peer is no longer a member, or this node may no longer send.
    pub fn abort(&mut self) {
        self.end_with(SessionEnd::Aborted, EndCode::Aborted);
    }

    /// Returns whether process `pid` of the peer has fallen behind.
    pub fn is_slow(&self, pid: Pid) -> bool {
        self.slow.contains(&pid)
    }

    /// Returns whether the session has ended.
    pub fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Returns whether the session accepts no more messages: it has ended, or was [closed](Self::close) on this side.
    pub fn is_closed(&self) -> bool {
        self.end.is_some() || self.leaving.is_some()
    }

    /// Returns the number of messages of the data lane that were not acknowledged when the session ended. They may
    /// have arrived.
    pub fn unconfirmed(&self) -> u64 {
        self.unconfirmed
    }

    /// Returns whether the queue of a lane has room for a short message.
    pub(crate) fn has_room(&self, lane: Lane) -> bool {
        self.outgoing[index(lane)].has_room()
    }

    /// Returns the limits of a lane.
    pub fn limits(&self, lane: Lane) -> LaneLimits {
        self.config.limits(lane)
    }

    /// Returns the length of the longest message of a lane.
    pub fn longest(&self, lane: Lane) -> usize {
        self.config.limits(lane).message
    }

    /// Returns this side's epoch and the peer's revision. No other session with this peer has the same pair.
    pub fn identity(&self) -> (Epoch, Revision) {
        (self.handshake.local(), self.handshake.peer())
    }

    /// Returns two costs for a lane: that of the parcels to be sent or acknowledged, and that of the items to be
    /// released.
    pub fn buffered(&self, lane: Lane) -> (u64, u64) {
        (self.outgoing[index(lane)].queued(), self.incoming[index(lane)].held())
    }
}

/// Returns the answer to a frame from a node with which there is no session. The answer tells the node that its session
/// is over. Returns `None` for frames that need no answer, and for invalid frames.
pub fn refusal(payload: Bytes) -> Option<Transmit> {
    let Frame { from, to, body } = Frame::decode(payload).ok()?;
    if matches!(body, Body::End(_)) {
        return None;
    }
    let payload = Frame { from: to?, to: Some(from), body: Body::End(EndCode::Unknown) }.encode();
    Some(Transmit { lane: Lane::Control, payload })
}

fn index(lane: Lane) -> usize {
    match lane {
        Lane::Data => 0,
        Lane::Control => 1,
    }
}
