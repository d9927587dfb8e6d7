//! The driver, which maintains the members, the lease, the names and the sessions of one node over its engine.

use super::delivery::{Arrivals, NodeCounters};
use super::directory::Directory;
use super::inbox::{Inbox, Input};
use super::peer::{Gate, Peer, SharedClock};
use super::porter::Porter;
use super::view::View;
use crate::clock::{LONGEST_WAIT, Moment};
use crate::codec::Codecs;
use crate::engine::{Engine, Lane, Message, SubscribeError, Subscription};
use crate::frame::Table;
use crate::lease::{Lease, Timing};
use crate::membership::{Identity, KnownNames, Membership};
use crate::names::{RegisterError, Token};
use crate::reply::{Completer, pair};
use crate::session::Config;
use crate::store::{Bucket, Change, Revision};
use crate::subject::Subjects;
use agenda::Agenda;
use ends::{Condemned, Leaving};
use postroom::{Address, NodeId};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

mod agenda;
mod directory;
mod ends;
mod leaving;
mod members;
mod names;
mod outages;
mod sessions;

/// The wait before this node tries again to join, or to begin a session.
const AGAIN: Duration = Duration::from_secs(1);
/// If the engine was too busy for a frame, the wait before the frame is published again.
const BUSY: Duration = Duration::from_millis(1);
/// The interval at which a leaving node checks whether it can continue.
const LEAVING: Duration = Duration::from_millis(10);

/// The arguments for a driver.
pub(crate) struct DriverSetup {
    pub(crate) cluster: String,
    pub(crate) name: String,
    pub(crate) node: NodeId,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: SharedClock,
    pub(crate) gate: Arc<Gate>,
    pub(crate) timing: Timing,
    pub(crate) session: Config,
    /// Maximum number of nodes of the cluster.
    pub(crate) max_nodes: usize,
    pub(crate) codecs: Codecs,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) counters: Arc<NodeCounters>,
    pub(crate) view: Arc<View>,
    /// Watches the holders of names.
    pub(crate) porter: Address<Porter>,
    pub(crate) directory: Arc<Directory>,
    /// Returns a number that no other run has drawn.
    pub(crate) draw: Box<dyn FnMut() -> u64 + Send>,
}

/// An attempt to be a member, from the request to join until this node is fenced.
struct JoinAttempt {
    number: u64,
    membership: Membership,
    /// The epoch of the membership, once the node has joined.
    epoch: Option<Revision>,
    lease: Option<Lease>,
}

struct ConnectedPeer {
    peer: Arc<Peer>,
    /// The epoch of the peer's membership.
    revision: Revision,
    /// Whether this node is leaving, and has begun to close the session.
    is_closing: Cell<bool>,
}

/// Drives one node.
pub(crate) struct Driver {
    setup: DriverSetup,
    own: Identity,
    subjects: Subjects,
    table: Table,
    _subscriptions: Vec<Subscription>,
    attempt: Option<JoinAttempt>,
    last_attempt: u64,
    /// The epoch of the most recent membership.
    epoch_before: Option<Revision>,
    /// The records that this node knew when it was fenced, and the time by which all leases that existed then are over.
    known_before: (BTreeMap<NodeId, Revision>, Moment),
    join_at: Option<Moment>,
    /// Whether this node has ever been a member.
    was_member: bool,
    /// Number of failed attempts to join since this node was last a member.
    failures: u32,
    /// Other nodes with this node's name.
    namesakes: BTreeSet<NodeId>,
    peers: BTreeMap<NodeId, ConnectedPeer>,
    /// Members without a session, and when to begin one.
    begin_at: BTreeMap<NodeId, Moment>,
    /// The members, with their epochs.
    members: BTreeMap<NodeId, Revision>,
    /// Number of sessions that were begun with each member, for each of its memberships.
    begun: BTreeMap<(NodeId, Revision), u32>,
    /// For each lease, the epoch that was last seen in it, and when that was.
    leases: BTreeMap<Identity, (Revision, Moment)>,
    /// The identities in the snapshot that the watch of the leases is reporting.
    lease_snapshot: Option<BTreeSet<Identity>>,
    /// The name that each ID belongs to. Used only while there is no attempt to join: an attempt holds these names
    /// itself.
    bindings: KnownNames,
    /// Memberships that are over as far as this node knows but still hold names, with the time at which this node
    /// noticed them.
    orphaned: BTreeMap<(NodeId, Revision), Moment>,
    sweep_at: Moment,
    probe_at: Moment,
    registering: BTreeMap<u64, Completer<Result<Token, RegisterError>>>,
    condemned: Vec<Condemned>,
    /// The peers that the driver has to check, and when.
    agenda: Agenda,
    /// Peers with something to transmit.
    ready: BTreeSet<NodeId>,
    /// Peers with a frame that the engine was too busy for.
    busy: BTreeSet<NodeId>,
    leaving: Option<Leaving>,
    /// Number of unanswered requests to the store.
    unanswered: usize,
    has_ended: bool,
}

/// Subscribes to the store, and to the frames of other nodes.
fn subscribe(setup: &DriverSetup, own: &Identity, subjects: &Subjects) -> Result<Vec<Subscription>, SubscribeError> {
    let (inbox, engine) = (&setup.inbox, &setup.engine);
    let watch = |bucket, input: fn(Change) -> Input| {
        let inbox = Arc::clone(inbox);
        engine.watch(bucket, None, Box::new(move |change| inbox.push(input(change))))
    };
    let mut subscriptions = vec![
        watch(Bucket::Nodes, Input::Members)?,
        watch(Bucket::Leases, Input::Leases)?,
        watch(Bucket::Names, Input::Names)?,
        engine.watch(Bucket::Groups, None, setup.directory.on_counts())?,
    ];
    for lane in Lane::ALL {
        let on_frame = Box::new(on_frame(setup, subjects.clone()));
        subscriptions.push(engine.subscribe(lane, &subjects.frames_to(own, lane), on_frame)?);
    }
    Ok(subscriptions)
}

/// Returns the handler of frames. It passes each frame to the session with its sender, or to the driver if there is no
/// such session.
fn on_frame(setup: &DriverSetup, senders: Subjects) -> impl FnMut(Message) + Send + use<> {
    let inbox = Arc::clone(&setup.inbox);
    let (view, counters) = (Arc::clone(&setup.view), Arc::clone(&setup.counters));
    move |message| {
        let forged = || _ = counters.forged_frames.fetch_add(1, Ordering::Relaxed);
        // The broker vouches for the subject; the payload may claim anything.
        let Some((_, from)) = senders.parse_frame(&message.subject) else { return forged() };
        let (is_named_so, peer) = {
            let state = view.lock();
            let member = state.members.get(&from.id);
            (member.map(|member| member.name == from.name), state.peers.get(&from.id).cloned())
        };
        match (is_named_so, peer) {
            (Some(false), _) => forged(),
            (Some(true), Some(peer)) => match peer.handle(message.payload) {
                Ok(0) => {}
                Ok(replayed) => _ = counters.replayed_frames.fetch_add(replayed, Ordering::Relaxed),
                Err(_) => _ = counters.broken_frames.fetch_add(1, Ordering::Relaxed),
            },
            (Some(true), None) | (None, _) => inbox.push(Input::Stray { from, payload: message.payload }),
        }
    }
}

impl Driver {
    /// Subscribes, and begins to join.
    pub(crate) fn new(setup: DriverSetup) -> Result<Self, SubscribeError> {
        let own = Identity { name: setup.name.clone(), id: setup.node };
        let subjects = Subjects::of(&setup.cluster);
        let subscriptions = subscribe(&setup, &own, &subjects)?;
        Ok(Self {
            table: setup.codecs.table().clone(),
            setup,
            own,
            subjects,
            _subscriptions: subscriptions,
            attempt: None,
            last_attempt: 0,
            epoch_before: None,
            known_before: (BTreeMap::new(), Moment::START),
            join_at: Some(Moment::START),
            was_member: false,
            failures: 0,
            namesakes: BTreeSet::new(),
            peers: BTreeMap::new(),
            begin_at: BTreeMap::new(),
            members: BTreeMap::new(),
            begun: BTreeMap::new(),
            leases: BTreeMap::new(),
            lease_snapshot: None,
            bindings: KnownNames::default(),
            orphaned: BTreeMap::new(),
            sweep_at: Moment::START,
            probe_at: Moment::START,
            registering: BTreeMap::new(),
            condemned: Vec::new(),
            agenda: Agenda::default(),
            ready: BTreeSet::new(),
            busy: BTreeSet::new(),
            leaving: None,
            unanswered: 0,
            has_ended: false,
        })
    }

    /// Runs until the node has left.
    pub(crate) fn run_to_end(mut self) {
        while let Some(next) = self.run() {
            let wait = next.since(self.now()).min(LONGEST_WAIT);
            if !wait.is_zero() {
                self.setup.inbox.wait(next, wait);
            }
        }
    }

    #[cfg(any(test, feature = "test"))]
    pub(crate) fn inbox(&self) -> Arc<Inbox> {
        Arc::clone(&self.setup.inbox)
    }

    #[cfg(any(test, feature = "test"))]
    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.setup.view)
    }

    fn now(&self) -> Moment {
        (self.setup.clock)()
    }

    /// Performs all due actions. Returns the time of the next call, or `None` when the node has left.
    pub(crate) fn run(&mut self) -> Option<Moment> {
        #[cfg(test)]
        self.setup.view.count_turn();
        // Joining comes first, so that the reports of the watch reach the attempt to join.
        self.join(self.now());
        while let Some(input) = self.setup.inbox.pop() {
            self.input(self.now(), input);
        }
        let now = self.now();
        if self.leaving.is_none() && !self.setup.porter.pid().is_alive() {
            // The runtime is being shut down. Its supervisors first stop their children on other nodes.
            self.leave(now, pair(()).1);
            self.leaving.iter_mut().for_each(|leaving| leaving.awaits_children = true);
        }
        // The sessions come first, so that this turn already acts on what they report about members.
        self.advance_sessions(now);
        self.probe_neighbours(now);
        self.advance_membership(now);
        self.advance_lease(now);
        self.note_obstacle(now);
        self.advance_names(now);
        self.advance_directory(now);
        self.begin_sessions(now);
        self.transmit();
        self.end_condemned(now);
        self.setup.view.answer_waits(Some(now));
        if self.has_left(now) {
            return None;
        }
        self.note_timeouts();
        Some(self.next(now))
    }

    fn next(&self, now: Moment) -> Moment {
        let attempt = self.attempt.as_ref();
        let is_busy = !self.busy.is_empty();
        let has_epoch = attempt.is_some_and(|attempt| attempt.epoch.is_some());
        let join_at = self.join_at.filter(|_| self.leaving.is_none());
        let leaving = self.leaving.as_ref().map(|leaving| leaving.until.min(now + LEAVING));
        let next = [join_at, self.setup.view.names().next_timeout(), leaving]
            .into_iter()
            .chain([attempt.and_then(|attempt| attempt.membership.next_timeout())])
            .chain([attempt.and_then(|attempt| attempt.lease.as_ref()?.next_timeout())])
            .chain([self.agenda.next()])
            .chain(self.begin_at.values().map(|at| Some(*at).filter(|_| has_epoch)))
            .chain(self.condemned.iter().map(|condemned| Some(condemned.next_timeout(now))))
            .chain([self.setup.directory.next_timeout()])
            .chain([is_busy.then_some(now + BUSY), self.may_send(now).then_some(self.probe_at)])
            .chain([self.setup.view.next_wait()])
            .flatten()
            .min();
        // The next turn is at least `BUSY` later, so that an action that is due but not possible is not retried without
        // a pause.
        next.unwrap_or(now + LONGEST_WAIT).max(now + BUSY)
    }

    fn input(&mut self, now: Moment, input: Input) {
        match input {
            Input::Members(change) => {
                if let Some(attempt) = &mut self.attempt {
                    attempt.membership.on_change(change);
                }
            }
            Input::Leases(change) => self.lease_changed(change),
            Input::Names(change) => self.setup.view.names().on_change(change),
            Input::Found { attempt: number, number: request, finding } => {
                self.unanswered = self.unanswered.saturating_sub(1);
                if let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.number == number) {
                    attempt.membership.handle(now, request, finding);
                }
            }
            Input::Leased { attempt: number, number: request, answer } => {
                self.unanswered = self.unanswered.saturating_sub(1);
                let attempt = self.attempt.as_mut().filter(|attempt| attempt.number == number);
                if let Some(lease) = attempt.and_then(|attempt| attempt.lease.as_mut()) {
                    lease.handle(now, request, answer);
                }
            }
            Input::Named { number, answer, unconfirmed } => self.name_answered(now, number, answer, unconfirmed),
            Input::Stray { from, payload } => self.stray(now, from, payload),
            Input::Ready(node) => {
                self.ready.insert(node);
                self.agenda.look_at(node);
            }
            Input::Register { name, pid, then } => {
                // A node that was paused may not know yet that its lease is over, and the store would still accept its
                // write.
                if !self.may_send(now) {
                    return then.complete(Err(RegisterError::NotAMember));
                }
                if !pid.is_alive() {
                    return then.complete(Err(RegisterError::Ended { pid }));
                }
                // The process is watched first, so that its end is reported even if it ends before it has the name.
                if self.setup.porter.watch(pid).send().is_err() {
                    return then.complete(Err(RegisterError::NotAMember));
                }
                let number = self.setup.view.names().register(&name, pid);
                self.registering.insert(number, then);
            }
            Input::Release { name, pid, then } => {
                let is_released = self.setup.view.names().release(&name, pid);
                then.complete(is_released);
            }
            Input::Ended(pid) => self.setup.view.names().ended(pid),
            Input::Wait { time, check } => self.setup.view.wait(now + time, check),
            // The directory is advanced after all inputs.
            Input::Directory => {}
            Input::Leave(then) => self.leave(now, then),
        }
    }

    fn may_send(&self, now: Moment) -> bool {
        self.attempt.as_ref().and_then(|attempt| attempt.lease.as_ref()).is_some_and(|lease| lease.may_send(now))
    }
}

impl Drop for Driver {
    /// Refuses all further requests at once. If the driver has panicked, the node also ends, as if it had been fenced.
    fn drop(&mut self) {
        if !self.has_ended {
            self.end();
        }
        self.setup.inbox.close();
    }
}

#[cfg(test)]
impl Driver {
    pub(crate) fn epoch(&self) -> Option<Revision> {
        self.attempt.as_ref()?.epoch
    }

    pub(crate) fn peer(&self, node: NodeId) -> Option<Arc<Peer>> {
        Some(Arc::clone(&self.peers.get(&node)?.peer))
    }
}
