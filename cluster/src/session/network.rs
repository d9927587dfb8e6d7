//! A model for tests: two nodes, the broker between them with all its faults, and the checks of their sessions.

use super::{Config, LaneLimits, Session, SessionEnd, SessionEvent, Transmit, refusal};
use crate::clock::Moment;
use crate::engine::Lane;
use crate::frame::{Epoch, Table, Versions};
use crate::random::Random;
use crate::store::Revision;
use bytes::{BufMut, Bytes, BytesMut};
use postroom::Pid;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The faults of the broker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// Percentage of frames that are lost.
    pub(super) drop: u64,
    /// Percentage of frames that arrive twice.
    pub(super) duplicate: u64,
    /// The longest delay, in milliseconds. The delay is drawn for each frame, so frames overtake each other.
    pub(super) delay: u64,
}

pub(super) struct World {
    pub(super) now: Moment,
    pub(super) random: Random,
    pub(super) faults: Faults,
    /// Whether frames from each node to the other are lost.
    pub(super) cut: [bool; 2],
    pub(super) nodes: [Node; 2],
    /// The logs of all sessions so far.
    pub(super) logs: Vec<Log>,
    flights: BTreeMap<(Moment, u64), (usize, Bytes)>,
    flown: u64,
    last_revision: u64,
    config: Config,
}

pub(super) struct Node {
    revision: Revision,
    /// The revision of the peer's record that this node knows.
    knows: Revision,
    learns_at: Moment,
    sessions: u32,
    session: Option<(Session, usize)>,
    begins_at: Moment,
    pub(super) paused_until: Moment,
    /// The frames that arrived during a pause.
    waiting: VecDeque<Bytes>,
    /// Whether the node releases no items, as if its processes were slow.
    pub(super) hoards: bool,
    unreleased: Vec<(Lane, u64)>,
    pub(super) told_slow: BTreeSet<Pid>,
}

/// The history of one session on one node.
pub(super) struct Log {
    node: usize,
    epoch: Epoch,
    /// Number of messages accepted for sending, by lane.
    sent: [u64; 2],
    /// Number of messages received, by lane.
    received: [u64; 2],
    /// The epoch of the peer's session from which this session has received messages.
    from: Option<Epoch>,
    pub(super) opened: bool,
    pub(super) end: Option<SessionEnd>,
    /// Whether the node has crashed.
    crashed: bool,
}

impl Log {
    fn is_over(&self) -> bool {
        self.end.is_some() || self.crashed
    }
}

pub(super) fn small() -> Config {
    Config {
        data: LaneLimits { window: 3_000, queue: 9_000, message: 1_500 },
        control: LaneLimits { window: 1_000, queue: 2_000, message: 500 },
        versions: Versions::CURRENT,
        features: 0,
    }
}

pub(super) fn pid(number: u64) -> Pid {
    format!("<1.0.{number}.1>").parse().unwrap()
}

impl World {
    pub(super) fn new(seed: u64, config: Config) -> Self {
        let node = |revision, knows| Node {
            revision: Revision(revision),
            knows: Revision(knows),
            learns_at: Moment::START,
            sessions: 0,
            session: None,
            begins_at: Moment::START,
            paused_until: Moment::START,
            waiting: VecDeque::new(),
            hoards: false,
            unreleased: Vec::new(),
            told_slow: BTreeSet::new(),
        };
        Self {
            now: Moment::START,
            random: Random::new(seed),
            faults: Faults::default(),
            cut: [false; 2],
            nodes: [node(1, 2), node(2, 1)],
            logs: Vec::new(),
            flights: BTreeMap::new(),
            flown: 0,
            last_revision: 2,
            config,
        }
    }

    /// Advances the time by `wait`, and processes all events until then.
    pub(super) fn run(&mut self, wait: Duration) {
        let until = self.now + wait;
        (0..2).for_each(|node| self.settle(node));
        while let Some(next) = self.next_time().filter(|&next| next <= until) {
            self.now = self.now.max(next);
            while let Some(flight) = self.flights.first_entry().filter(|flight| flight.key().0 <= self.now) {
                let (to, payload) = flight.remove();
                self.nodes[to].waiting.push_back(payload);
                self.settle(to);
            }
            (0..2).for_each(|node| self.settle(node));
        }
        self.now = until;
    }

    fn next_time(&self) -> Option<Moment> {
        let timers = (0..2).filter_map(|at| {
            let (node, other) = (&self.nodes[at], &self.nodes[1 - at]);
            let timer = match &node.session {
                Some((session, _)) => session.next_timeout(),
                None => Some(node.begins_at),
            };
            let learns = (node.knows != other.revision).then_some(node.learns_at);
            let woken = (!node.waiting.is_empty()).then_some(node.paused_until);
            [timer, learns, woken].into_iter().flatten().min().map(|next| next.max(node.paused_until))
        });
        timers.chain(self.flights.keys().next().map(|key| key.0)).min()
    }

    /// Makes a node do everything that it can do now.
    fn settle(&mut self, at: usize) {
        if self.nodes[at].paused_until > self.now {
            return;
        }
        let peer = self.nodes[1 - at].revision;
        let node = &mut self.nodes[at];
        if node.knows != peer && node.learns_at <= self.now {
            node.knows = peer;
            if let Some((session, _)) = &mut node.session {
                session.abort();
            }
        }
        if node.session.is_none() && node.begins_at <= self.now {
            let epoch = Epoch::new(node.revision, node.sessions).unwrap();
            node.sessions += 1;
            let session = Session::new(self.config, epoch, node.knows, Table::default(), self.now);
            node.session = Some((session, self.logs.len()));
            node.unreleased.clear();
            node.told_slow.clear();
            self.logs.push(Log {
                node: at,
                epoch,
                sent: [0; 2],
                received: [0; 2],
                from: None,
                opened: false,
                end: None,
                crashed: false,
            });
        }
        if let Some((session, _)) = &mut node.session
            && session.next_timeout().is_some_and(|next| next <= self.now)
        {
            session.handle_timeout(self.now);
        }
        while let Some(payload) = self.nodes[at].waiting.pop_front() {
            match &mut self.nodes[at].session {
                Some((session, _)) => session.handle(self.now, payload).unwrap(),
                None => refusal(payload).into_iter().for_each(|answer| self.publish(at, answer)),
            }
        }
        self.take(at);
        while let Some((session, _)) = &mut self.nodes[at].session
            && let Some(transmit) = session.poll_transmit(self.now)
        {
            self.publish(at, transmit);
        }
        self.check_memory(at);
        if self.nodes[at].session.as_ref().is_some_and(|(_, log)| self.logs[*log].end.is_some()) {
            self.nodes[at].session = None;
            self.nodes[at].begins_at = self.now + Duration::from_millis(self.random.below(1_000));
        }
    }

    /// Takes messages and events, and checks each message.
    fn take(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let Some((session, log)) = &mut node.session else { return };
        let log = &mut self.logs[*log];
        loop {
            while let Some(item) = session.poll_item() {
                assert!(log.end.is_none(), "a message after the end");
                let (from, lane, number) = read(&item.bytes);
                assert_eq!(lane, item.lane);
                assert_eq!(*log.from.get_or_insert(from), from, "messages of two sessions in one");
                let received = &mut log.received[lane as usize];
                assert_eq!(number, *received, "lost, repeated or out of order, in {:?}", log.epoch);
                *received += 1;
                node.unreleased.push((item.lane, item.cost));
            }
            if !node.hoards {
                node.unreleased.drain(..).for_each(|(lane, cost)| session.release(lane, cost));
            }
            match session.poll_event() {
                Some(SessionEvent::Ended(end)) => assert!(log.end.replace(end).is_none(), "ended twice"),
                Some(SessionEvent::Opened { .. }) => log.opened = true,
                Some(SessionEvent::Slow(_) | SessionEvent::Fast(_)) => assert!(log.opened && log.end.is_none()),
                Some(SessionEvent::Suspect) => assert!(log.end.is_none()),
                None => break,
            }
        }
    }

    fn check_memory(&self, at: usize) {
        let Some((session, _)) = &self.nodes[at].session else { return };
        for lane in Lane::ALL {
            let limits = self.config.limits(lane);
            let (queued, held) = session.buffered(lane);
            let message = super::outgoing::message_cost(limits.message);
            // A notice may be queued as long as there is room for one byte.
            assert!(queued <= limits.queue.max(message) + 80, "{queued} queued in {lane:?}");
            assert!(held <= limits.window + message, "{held} held in {lane:?}");
        }
    }

    fn publish(&mut self, at: usize, transmit: Transmit) {
        let copies = 1 + u64::from(self.random.chance(self.faults.duplicate));
        for _ in 0..copies {
            if self.cut[at] || self.random.chance(self.faults.drop) {
                continue;
            }
            let delay = Duration::from_micros(500 + 1_000 * self.random.below(self.faults.delay + 1));
            self.flown += 1;
            self.flights.insert((self.now + delay, self.flown), (1 - at, transmit.payload.clone()));
        }
    }

    /// Sends a message of `length` bytes, if it is accepted.
    pub(super) fn send(&mut self, at: usize, lane: Lane, to: Pid, length: usize) -> bool {
        let Some((session, log)) = &mut self.nodes[at].session else { return false };
        let log = &mut self.logs[*log];
        let sent = &mut log.sent[lane as usize];
        let message = write(log.epoch, lane, *sent, length);
        match session.send(lane, to, message.clone()) {
            Ok(()) => *sent += 1,
            Err(error) => {
                assert_eq!(error.into_message(), message);
                return false;
            }
        }
        true
    }

    pub(super) fn session(&mut self, at: usize) -> Option<&mut Session> {
        self.nodes[at].session.as_mut().map(|(session, _)| session)
    }

    pub(super) fn log(&self, at: usize) -> Option<&Log> {
        self.nodes[at].session.as_ref().map(|(_, log)| &self.logs[*log])
    }

    /// Kills the node, and starts it again as another run. The peer learns about that some time later.
    pub(super) fn crash(&mut self, at: usize) {
        self.last_revision += 1;
        let delay = Duration::from_millis(self.random.below(3_000));
        let node = &mut self.nodes[at];
        if let Some((_, log)) = node.session.take() {
            self.logs[log].crashed = true;
        }
        (node.revision, node.sessions) = (Revision(self.last_revision), 0);
        (node.begins_at, node.paused_until) = (self.now + delay, self.now);
        node.waiting.clear();
        let learns = Duration::from_millis(self.random.below(3_000));
        self.nodes[1 - at].learns_at = self.now + learns;
    }

    /// Ends all faults, waits, and checks the final state.
    pub(super) fn heal_and_check(&mut self) {
        self.faults = Faults::default();
        self.cut = [false; 2];
        for node in &mut self.nodes {
            (node.paused_until, node.hoards) = (self.now, false);
        }
        // Covers the longest silence that does not end a session, and then two new handshakes.
        self.run(Duration::from_secs(50));
        for at in 0..2 {
            assert!(self.log(at).is_some_and(|log| log.opened), "no open session in the end");
            let told_slow = self.nodes[at].told_slow.clone();
            let session = self.session(1 - at).unwrap();
            assert!((0..4).all(|number| session.is_slow(pid(number)) == told_slow.contains(&pid(number))));
            assert!(Lane::ALL.iter().all(|&lane| session.buffered(lane) == (0, 0)), "something waits in the end");
        }
        self.check_both_heard();
    }

    /// Checks that nothing was lost, or that both sides were notified of the end.
    fn check_both_heard(&self) {
        for sender in &self.logs {
            let receivers: Vec<_> =
                self.logs.iter().filter(|log| log.node != sender.node && log.from == Some(sender.epoch)).collect();
            assert!(receivers.len() <= 1, "one session there was two here");
            let received = receivers.first().map_or([0; 2], |log| log.received);
            assert!(received.iter().zip(sender.sent).all(|(received, sent)| *received <= sent));
            if received != sender.sent {
                assert!(sender.is_over(), "lost in {:?}, and its sender does not know", sender.epoch);
                assert!(receivers.iter().all(|log| log.is_over()), "lost, and the receiver does not know");
                assert_ne!(
                    sender.end,
                    Some(SessionEnd::Closed { delivered: true }),
                    "said to be delivered, and was not"
                );
            }
            // If one side was notified of the end, so was the other. Otherwise the other would by now communicate with
            // a newer session, which the assertion `messages of two sessions in one` would have found.
            if let Some(receiver) = receivers.first()
                && (sender.is_over() || receiver.is_over())
            {
                assert!(
                    sender.is_over() && receiver.is_over(),
                    "only one side has heard the end of {:?}",
                    sender.epoch
                );
                assert!(
                    receiver.end != Some(SessionEnd::Left) || received == sender.sent,
                    "a goodbye has overtaken messages"
                );
            }
        }
    }
}

fn write(epoch: Epoch, lane: Lane, number: u64, length: usize) -> Bytes {
    let mut out = BytesMut::with_capacity(length.max(21));
    out.put_u64(epoch.revision().0);
    out.put_u32(epoch.count());
    out.put_u8(lane as u8);
    out.put_u64(number);
    // The content shows whether the parts were assembled in order.
    while out.len() < length {
        let same = 1_000 - out.len() % 1_000;
        out.put_bytes((out.len() / 1_000) as u8, same.min(length - out.len()));
    }
    out.freeze()
}

fn read(message: &[u8]) -> (Epoch, Lane, u64) {
    let number = |range: std::ops::Range<usize>| message[range].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    for (at, &byte) in message.iter().enumerate().skip(21).step_by(97) {
        assert_eq!(byte, (at / 1_000) as u8, "at {at} of a message of {}", message.len());
    }
    (
        Epoch::new(Revision(number(0..8)), number(8..12) as u32).unwrap(),
        Lane::ALL[number(12..13) as usize],
        number(13..21),
    )
}
