//! The driver: the members, the lease, the names and the sessions of one node, over its engine.

use super::delivery::{Arrival, Arrivals, Counters};
use super::directory::Directory;
use super::inbox::{Check, Inbox, Input};
use super::peer::{Gate, Peer, Port, SharedClock};
use super::porter::Porter;
use crate::access::Answer;
use crate::clock::Moment;
use crate::codec::Codecs;
use crate::engine::{Bucket, Change, Engine, Lane, Revision, SubscribeError, Subscription};
use crate::frame::{Epoch, Table};
use crate::lease::{self, Lease, Timing};
use crate::membership::{
    self, Finding, Identity, Inquiry, JoinError, KnownNames, Loss, Membership, Record, RecordError,
};
use crate::names::{Names, RegisterError, Registered, Token};
use crate::reply::{Completer, pair};
use crate::session::{Config, End, Event, Session, Transmit, refusal};
use crate::subject::Subjects;
use postroom::{Address, NodeId, Pid};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

mod directory;

/// The wait before this node joins again, or begins a session again.
const AGAIN: Duration = Duration::from_secs(1);
/// The wait before a frame is published again that the engine was too busy for.
const BUSY: Duration = Duration::from_millis(1);
/// How often a node probes its neighbours. With the grace of a second, a node whose connection is closed counts as lost
/// within 1.5 s.
const PROBE_EVERY: Duration = Duration::from_millis(400);
/// How many neighbours it probes: the next ones in the order of the IDs, in a ring. So each node is probed by two,
/// however many there are, and what they find in the store is seen by all.
const NEIGHBOURS: usize = 2;
/// How often a node that leaves looks whether it can go on.
const LEAVING: Duration = Duration::from_millis(10);
/// How long it waits for the store.
const FAREWELL: Duration = Duration::from_secs(2);
/// The longest wait: a guard against a clock that stands still while the machine is suspended.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// A member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its ID: that of its PIDs.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Whether there is a session with it: messages get through. Always true of this node while it is a member.
    pub is_connected: bool,
}

/// What the driver knows and users look at.
#[derive(Default)]
pub(crate) struct View {
    state: Mutex<ViewState>,
    /// Who waits for a change of that.
    waits: Mutex<Vec<Wait>>,
    names: Mutex<Names>,
}

#[derive(Default)]
pub(crate) struct ViewState {
    /// Whether this node is a member, and its lease is valid.
    pub(crate) is_member: bool,
    /// It will be no member any more: it has left, or was refused.
    pub(crate) is_over: Option<Option<JoinError>>,
    pub(crate) members: BTreeMap<NodeId, Member>,
    pub(crate) peers: BTreeMap<NodeId, Arc<Peer>>,
}

/// A wait for a change of the view, for a limited time.
struct Wait {
    check: Check,
    until: Moment,
}

impl View {
    pub(crate) fn lock(&self) -> MutexGuard<'_, ViewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The driver's, which users look up names in.
    pub(crate) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is sent to this peer gets through from now on.
    pub(crate) fn connected(&self, peer: &Arc<Peer>) {
        self.change(|view| {
            let is_current = view.peers.get(&peer.node()).is_some_and(|current| Arc::ptr_eq(current, peer));
            if let Some(member) = view.members.get_mut(&peer.node()).filter(|_| is_current) {
                member.is_connected = true;
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut ViewState)) {
        let mut state = self.lock();
        change(&mut state);
        drop(state);
        self.answer_waits(None);
    }

    fn waits(&self) -> MutexGuard<'_, Vec<Wait>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, until: Moment, check: Check) {
        self.waits().push(Wait { check, until });
        self.answer_waits(None);
    }

    /// Answers the waits that have come to their end, and those whose time is over, if that is known.
    fn answer_waits(&self, now: Option<Moment>) {
        let mut over = Vec::new();
        self.waits().retain_mut(|wait| {
            let answer = (wait.check)(now.is_some_and(|now| wait.until <= now));
            let is_over = answer.is_some();
            over.extend(answer);
            !is_over
        });
        // Outside the lock: whom they wake is a user's.
        over.into_iter().for_each(|answer| answer());
    }

    /// Returns when the time of the first wait is over.
    fn next_wait(&self) -> Option<Moment> {
        self.waits().iter().map(|wait| wait.until).min()
    }

    /// No wait will come to its end: they are answered by being dropped.
    fn end_waits(&self) {
        let waits = std::mem::take(&mut *self.waits());
        drop(waits);
    }
}

/// What a node needs to run.
pub(crate) struct Setup {
    pub(crate) cluster: String,
    pub(crate) name: String,
    pub(crate) node: NodeId,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: SharedClock,
    pub(crate) gate: Arc<Gate>,
    pub(crate) timing: Timing,
    pub(crate) session: Config,
    /// The most nodes that the cluster may have.
    pub(crate) max_nodes: usize,
    pub(crate) codecs: Codecs,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) view: Arc<View>,
    /// Watches the holders of names.
    pub(crate) porter: Address<Porter>,
    pub(crate) directory: Arc<Directory>,
    /// A number that no other run has.
    pub(crate) draw: Box<dyn FnMut() -> u64 + Send>,
}

/// One attempt to be a member, from the request to join until this node is fenced.
struct Attempt {
    number: u64,
    membership: Membership,
    /// Since it has joined.
    epoch: Option<Revision>,
    lease: Option<Lease>,
}

struct Connected {
    peer: Arc<Peer>,
    /// The epoch of the peer's membership.
    revision: Revision,
    /// This node leaves, and has said so.
    is_closing: Cell<bool>,
}

/// A process that must end since its node was fenced.
struct Condemned {
    pid: Pid,
    at: Moment,
}

/// Drives one node.
pub(crate) struct Driver {
    setup: Setup,
    own: Identity,
    subjects: Subjects,
    table: Table,
    _subscriptions: Vec<Subscription>,
    attempt: Option<Attempt>,
    last_attempt: u64,
    /// The epoch of the last membership.
    epoch_before: Option<Revision>,
    join_at: Option<Moment>,
    /// It has been a member.
    was_member: bool,
    peers: BTreeMap<NodeId, Connected>,
    /// Members without a session, and when to begin one.
    begin_at: BTreeMap<NodeId, Moment>,
    /// Who the members are.
    members: BTreeMap<NodeId, Revision>,
    /// How many sessions were begun with each member's membership.
    begun: BTreeMap<(NodeId, Revision), u32>,
    /// The epochs of leases, as they were last seen.
    leases: BTreeMap<Identity, Revision>,
    /// The keys of the snapshot that the watch of the leases is reporting.
    lease_snapshot: Option<BTreeSet<Identity>>,
    /// Which name each ID belongs to, while there is no attempt to join, which knows it otherwise.
    bindings: KnownNames,
    /// Memberships of which a name is left, though they are over as far as this node knows, and since when.
    orphaned: BTreeMap<(NodeId, Revision), Moment>,
    sweep_at: Moment,
    probe_at: Moment,
    registering: BTreeMap<u64, Completer<Result<Token, RegisterError>>>,
    condemned: Vec<Condemned>,
    /// Peers with something to transmit.
    ready: BTreeSet<NodeId>,
    /// Peers with a frame that the engine was too busy for.
    busy: BTreeSet<NodeId>,
    leaving: Option<Leaving>,
    /// What was asked of the store and is not answered.
    unanswered: usize,
    has_ended: bool,
}

struct Leaving {
    then: Vec<Completer<()>>,
    step: LeavingStep,
    /// When it goes on anyway.
    until: Moment,
    /// Not before the children of this node's supervisors at the peers have ended.
    awaits_children: bool,
}

/// In this order, so that a name has no second holder before its first has ended, and that what the holders say in
/// their end still arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeavingStep {
    /// The holders of names end, and their names are given up.
    Holders,
    /// What was accepted for the peers is sent, and they are told.
    Peers,
    /// Record and lease are deleted.
    Store,
}

impl Driver {
    /// Subscribes, and begins to join.
    pub(crate) fn new(setup: Setup) -> Result<Self, SubscribeError> {
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
        let own = Identity { name: setup.name.clone(), id: setup.node };
        let subjects = Subjects::of(&setup.cluster);
        for lane in Lane::ALL {
            let senders = subjects.clone();
            let (inbox, view, counters) = (Arc::clone(inbox), Arc::clone(&setup.view), Arc::clone(&setup.counters));
            let on_message = Box::new(move |message: crate::engine::Message| {
                let forged = || _ = counters.forged_frames.fetch_add(1, Ordering::Relaxed);
                // The subject is what the broker vouches for; the payload may claim anything.
                let Some((_, from)) = senders.parse_frame(&message.subject) else { return forged() };
                let (is_named_so, peer) = {
                    let state = view.lock();
                    let member = state.members.get(&from.id);
                    (member.map(|member| member.name == from.name), state.peers.get(&from.id).cloned())
                };
                match (is_named_so, peer) {
                    (Some(false), _) => forged(),
                    (Some(true), Some(peer)) => {
                        if peer.handle(message.payload).is_err() {
                            counters.broken_frames.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    (Some(true), None) | (None, _) => inbox.push(Input::Stray { from, payload: message.payload }),
                }
            });
            subscriptions.push(engine.subscribe(lane, &subjects.frames_to(&own, lane), on_message)?);
        }
        Ok(Self {
            table: setup.codecs.table().clone(),
            setup,
            own,
            subjects,
            _subscriptions: subscriptions,
            attempt: None,
            last_attempt: 0,
            epoch_before: None,
            join_at: Some(Moment::START),
            was_member: false,
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

    /// Does all that there is to do. Returns when there is more; `None` when the node has left.
    pub(crate) fn run(&mut self) -> Option<Moment> {
        // First: what the watch reports is for the attempt to join.
        self.join(self.now());
        while let Some(input) = self.setup.inbox.pop() {
            self.input(self.now(), input);
        }
        let now = self.now();
        if self.leaving.is_none() && !self.setup.porter.pid().is_alive() {
            // The runtime is being shut down. Its supervisors stop their children on other nodes first.
            self.leave(now, pair(()).1);
            self.leaving.iter_mut().for_each(|leaving| leaving.awaits_children = true);
        }
        // First: what the sessions tell of members is acted on at once.
        self.advance_sessions(now);
        self.probe_neighbours(now);
        self.advance_membership(now);
        self.advance_lease(now);
        self.advance_names(now);
        self.advance_directory(now);
        self.begin_sessions(now);
        self.transmit();
        self.condemned.retain(|condemned| {
            if condemned.at <= now {
                condemned.pid.kill();
            }
            condemned.pid.is_alive()
        });
        self.setup.view.answer_waits(Some(now));
        if self.has_left(now) {
            return None;
        }
        Some(self.next(now))
    }

    fn next(&self, now: Moment) -> Moment {
        let attempt = self.attempt.as_ref();
        let peers = self.peers.values();
        let is_busy = !self.busy.is_empty();
        let has_epoch = attempt.is_some_and(|attempt| attempt.epoch.is_some());
        let join_at = self.join_at.filter(|_| self.leaving.is_none());
        let leaving = self.leaving.as_ref().map(|leaving| leaving.until.min(now + LEAVING));
        let next = [join_at, self.setup.view.names().next_timeout(), leaving]
            .into_iter()
            .chain([attempt.and_then(|attempt| attempt.membership.next_timeout())])
            .chain([attempt.and_then(|attempt| attempt.lease.as_ref()?.next_timeout())])
            .chain(peers.map(|connected| connected.peer.next_timeout()))
            .chain(self.begin_at.values().map(|at| Some(*at).filter(|_| has_epoch)))
            .chain(self.condemned.iter().map(|condemned| Some(condemned.at)))
            .chain([self.setup.directory.next_timeout()])
            .chain([is_busy.then_some(now + BUSY), self.may_send(now).then_some(self.probe_at)])
            .chain([self.setup.view.next_wait()])
            .flatten()
            .min();
        // At least so much later: what is due and could not be done is not tried without a pause.
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
            Input::Named { number, answer } => self.setup.view.names().handle(now, number, answer),
            Input::Stray { from, payload } => self.stray(now, from, payload),
            Input::Ready(node) => _ = self.ready.insert(node),
            Input::Register { name, pid, then } => {
                if !pid.is_alive() {
                    return then.complete(Err(RegisterError::Ended { pid }));
                }
                // Watched first: if it ends before it has the name, that is known then.
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
            // Acted on after all inputs.
            Input::Directory => {}
            Input::Leave(then) => self.leave(now, then),
        }
    }

    /// A frame came without a session, or before this node has begun it: the sender repeats what it is asked to.
    fn stray(&self, now: Moment, from: Identity, payload: bytes::Bytes) {
        if self.peers.contains_key(&from.id) {
            return;
        }
        let answer = refusal(payload).filter(|_| self.may_send(now));
        if let Some(Transmit { lane, payload }) = answer {
            let subject = self.subjects.frame(&from, lane, &self.own);
            // Lost, it is asked for again.
            let _ = self.setup.engine.publish(lane, &subject, payload);
        }
    }

    fn may_send(&self, now: Moment) -> bool {
        self.attempt.as_ref().and_then(|attempt| attempt.lease.as_ref()).is_some_and(|lease| lease.may_send(now))
    }

    /// Has the neighbours probed if that is due.
    fn probe_neighbours(&mut self, now: Moment) {
        if now < self.probe_at || !self.may_send(now) {
            return;
        }
        self.probe_at = now + PROBE_EVERY;
        let own = self.setup.node;
        let after = self.members.keys().filter(|node| **node > own);
        let neighbours: Vec<_> = after.chain(self.members.keys()).take(NEIGHBOURS).copied().collect();
        if let Some(attempt) = &mut self.attempt {
            neighbours.into_iter().for_each(|node| attempt.membership.suspect(node));
        }
    }

    /// Joins if that is due.
    fn join(&mut self, now: Moment) {
        if self.leaving.is_some() || self.join_at.is_none_or(|at| now < at) {
            return;
        }
        if self.leases.contains_key(&self.own) {
            // That of the earlier membership: this node could get no other yet.
            self.join_at = Some(now + AGAIN);
            return;
        }
        self.join_at = None;
        self.last_attempt += 1;
        let run = (self.setup.draw)();
        let record = match Record::new(self.setup.name.clone(), run) {
            Ok(record) => record,
            // The builder has checked the name.
            Err(error) => unreachable!("{error}"),
        };
        let mut membership = match self.epoch_before {
            Some(before) => Membership::rejoin(self.setup.node, record, before),
            None => Membership::new(self.setup.node, record),
        };
        membership.remember(std::mem::take(&mut self.bindings));
        self.attempt = Some(Attempt { number: self.last_attempt, membership, epoch: None, lease: None });
        // What the watch has reported, the earlier attempt has heard.
        if self.last_attempt > 1 {
            self.watch_members_anew();
        }
    }

    fn watch_members_anew(&mut self) {
        let inbox = Arc::clone(&self.setup.inbox);
        let on_change = Box::new(move |change| inbox.push(Input::Members(change)));
        // A closed engine is the end of this node: its requests fail, too.
        if let Ok(watch) = self.setup.engine.watch(Bucket::Nodes, None, on_change) {
            self._subscriptions[0] = watch;
        }
    }

    fn advance_membership(&mut self, now: Moment) {
        let Some(attempt) = &mut self.attempt else { return };
        let number = attempt.number;
        attempt.membership.handle_timeout(now);
        let mut events = Vec::new();
        while let Some(event) = attempt.membership.poll_event() {
            events.push(event);
        }
        while let Some(request) = attempt.membership.poll_request() {
            self.unanswered += 1;
            let inbox = Arc::clone(&self.setup.inbox);
            let answered = move |finding| inbox.push(Input::Found { attempt: number, number: request.number, finding });
            let engine = &*self.setup.engine;
            match request.inquiry {
                Inquiry::Record(access) => {
                    let key = request.node.to_string();
                    access.perform(engine, Bucket::Nodes, &key, move |answer| answered(Finding::Record(answer)));
                }
                Inquiry::Probe => {
                    let subject = self.subjects.frame(&request.node, Lane::Control, &self.own);
                    engine.probe(&subject, Box::new(move |outcome| answered(Finding::Probe(outcome))));
                }
            }
        }
        events.into_iter().for_each(|event| self.member_event(now, event));
    }

    fn member_event(&mut self, now: Moment, event: membership::Event) {
        match event {
            membership::Event::Entered(epoch) => {
                if let Some(before) = self.epoch_before.replace(epoch) {
                    // Its holders have ended with it, and its lease is over.
                    self.setup.view.names().membership_over(self.setup.node, before);
                }
                if let Some(attempt) = &mut self.attempt {
                    attempt.epoch = Some(epoch);
                    let holder = bytes::Bytes::copy_from_slice(&epoch.0.to_be_bytes());
                    attempt.lease = Some(Lease::new(self.setup.timing, holder));
                }
                let members: Vec<_> = self.members.keys().copied().collect();
                members.into_iter().for_each(|node| _ = self.begin_at.insert(node, now));
                self.refuse_if_full(now);
            }
            membership::Event::Joined { node, revision, record } => {
                self.members.insert(node, revision);
                self.begin_at.insert(node, now);
                let member = Member { id: node, name: record.name().to_owned(), is_connected: false };
                self.setup.view.change(|view| _ = view.members.insert(node, member));
                self.refuse_if_full(now);
            }
            membership::Event::Lost { node, revision, cause } => {
                self.members.remove(&node);
                self.begin_at.remove(&node);
                self.begun.remove(&(node, revision));
                self.end_session(node);
                self.setup.view.change(|view| _ = view.members.remove(&node));
                // One that was lost otherwise may not know it until its lease is over.
                if cause == Loss::Left {
                    self.setup.view.names().membership_over(node, revision);
                }
            }
            membership::Event::Refused(error) => {
                self.attempt = None;
                self.setup.view.change(|view| view.is_over = Some(Some(error)));
            }
            membership::Event::Evicted => self.fenced(now),
            membership::Event::Unreadable { error, .. } => {
                let counters = &self.setup.counters;
                match error {
                    RecordError::Claimed { .. } => counters.claimed_ids.fetch_add(1, Ordering::Relaxed),
                    _ => counters.unreadable_records.fetch_add(1, Ordering::Relaxed),
                };
            }
        }
    }

    /// Returns whether an ID belongs to this name. Any node may write a lease that begins with its own name.
    fn is_bound(&self, identity: &Identity) -> bool {
        self.attempt.as_ref().map_or(&self.bindings, |attempt| attempt.membership.bindings()).has(identity)
    }

    /// Leaves if the cluster has no room for this node. Of several that join at once the earlier ones stay, by the
    /// order of their records in the store; one that was a member before comes back in any case.
    fn refuse_if_full(&mut self, now: Moment) {
        let attempt = self.attempt.as_ref().filter(|_| !self.was_member && self.leaving.is_none());
        let Some(epoch) = attempt.and_then(|attempt| attempt.epoch) else { return };
        let limit = self.setup.max_nodes;
        if self.members.values().filter(|earlier| **earlier < epoch).count() >= limit {
            self.setup.view.change(|view| view.is_over = Some(Some(JoinError::Full { limit })));
            self.leave(now, pair(()).1);
        }
    }

    fn lease_changed(&mut self, change: Change) {
        match change {
            Change::Put(entry) => {
                let epoch = entry.value[..].try_into().map(u64::from_be_bytes).map(Revision);
                if let (Some(identity), Ok(epoch)) = (Identity::parse(&entry.key), epoch) {
                    if let Some(snapshot) = &mut self.lease_snapshot {
                        snapshot.insert(identity.clone());
                    }
                    self.leases.insert(identity, epoch);
                }
            }
            Change::Deleted { key, .. } => {
                let Some(identity) = Identity::parse(&key) else { return };
                let Some(epoch) = self.leases.remove(&identity).filter(|_| self.is_bound(&identity)) else { return };
                if let Some(attempt) = &mut self.attempt {
                    attempt.membership.lease_expired(identity.id, epoch);
                }
                if identity != self.own {
                    self.setup.view.names().membership_over(identity.id, epoch);
                }
            }
            Change::Resync => self.lease_snapshot = Some(BTreeSet::new()),
            Change::Synced { .. } => {
                let Some(snapshot) = self.lease_snapshot.take() else { return };
                let missing: Vec<_> = self.leases.keys().filter(|key| !snapshot.contains(key)).cloned().collect();
                for identity in missing {
                    self.leases.remove(&identity);
                    // The snapshot may be older than the lease: no proof, but a hint.
                    if let Some(attempt) = &mut self.attempt {
                        attempt.membership.suspect(identity.id);
                    }
                }
            }
        }
    }

    /// Frees names whose nodes were lost while no node watched: all had stopped, or were cut off.
    fn sweep(&mut self, now: Moment) {
        if now < self.sweep_at || !self.may_send(now) {
            return;
        }
        self.sweep_at = now + AGAIN;
        let mut names = self.setup.view.names();
        let own = self.attempt.as_ref().and_then(|attempt| attempt.epoch).map(|epoch| (self.setup.node, epoch));
        // Under whatever name, of an ID that this node may never have seen.
        let leases: BTreeSet<_> = self.leases.iter().map(|(identity, epoch)| (identity.id, *epoch)).collect();
        let is_over = |&(node, epoch): &(NodeId, Revision)| {
            own != Some((node, epoch)) && self.members.get(&node) != Some(&epoch) && !leases.contains(&(node, epoch))
        };
        let over: BTreeSet<_> = names.memberships().filter(is_over).collect();
        self.orphaned.retain(|membership, _| over.contains(membership));
        for (node, epoch) in over {
            let since = *self.orphaned.entry((node, epoch)).or_insert(now);
            // Its lease may exist and not have been seen; it is over by then.
            if now.since(since) > self.setup.timing.ttl {
                names.membership_over(node, epoch);
            }
        }
    }

    fn advance_lease(&mut self, now: Moment) {
        let Some(attempt) = &mut self.attempt else { return };
        let (number, epoch) = (attempt.number, attempt.epoch);
        let Some(lease) = &mut attempt.lease else { return };
        lease.handle_timeout(now);
        while let Some(request) = lease.poll_request(now) {
            self.unanswered += 1;
            let inbox = Arc::clone(&self.setup.inbox);
            let then =
                move |answer: Answer| inbox.push(Input::Leased { attempt: number, number: request.attempt, answer });
            request.access.perform(&*self.setup.engine, Bucket::Leases, &self.own.to_string(), then);
        }
        let mut events = Vec::new();
        while let Some(event) = lease.poll_event() {
            events.push(event);
        }
        self.setup.gate.set(lease.may_send(now).then(|| lease.valid_until()).flatten());
        for event in events {
            match (event, epoch) {
                (lease::Event::Acquired, Some(epoch)) => {
                    self.setup.view.names().joined(epoch);
                    self.was_member = true;
                    // First: who waits to be a member may ask for a key at once.
                    self.advance_directory(now);
                    self.setup.view.change(|view| view.is_member = true);
                }
                (lease::Event::Fenced(lease::Fence::Released), _) => {}
                _ => self.fenced(now),
            }
        }
    }

    /// This node is no member any more, and joins again.
    fn fenced(&mut self, now: Moment) {
        let Some(mut attempt) = self.attempt.take() else { return };
        self.setup.gate.set(None);
        attempt.membership.abandon();
        self.bindings = attempt.membership.bindings().clone();
        // Counted from when it had to be fenced: one that was suspended may have no grace left, and others the names.
        let fence = attempt.lease.as_ref().and_then(Lease::valid_until).map_or(now, |until| until.min(now));
        let ends_at = fence + self.setup.timing.grace;
        self.setup.view.change(|view| {
            view.is_member = false;
            view.members.clear();
        });
        self.members.clear();
        self.begin_at.clear();
        self.begun.clear();
        let peers: Vec<_> = self.peers.keys().copied().collect();
        peers.into_iter().for_each(|node| self.end_session(node));
        let held = self.setup.view.names().fenced();
        for pid in held {
            pid.cancel("fenced: this node was cut off from its cluster, and its names pass to others");
            self.condemned.push(Condemned { pid, at: ends_at });
        }
        self.join_at = Some(now + AGAIN);
    }

    fn advance_names(&mut self, now: Moment) {
        self.sweep(now);
        let (mut requests, mut answers) = (Vec::new(), Vec::new());
        {
            let mut names = self.setup.view.names();
            names.handle_timeout(now);
            requests.extend(std::iter::from_fn(|| names.poll_request()));
            answers.extend(std::iter::from_fn(|| names.poll_registered()));
        }
        for request in requests {
            let inbox = Arc::clone(&self.setup.inbox);
            let then = move |answer| inbox.push(Input::Named { number: request.number, answer });
            request.access.perform(&*self.setup.engine, Bucket::Names, &request.key, then);
        }
        for Registered { number, result } in answers {
            if let Some(then) = self.registering.remove(&number) {
                then.complete(result);
            }
        }
    }

    fn begin_sessions(&mut self, now: Moment) {
        let Some(epoch) = self.attempt.as_ref().and_then(|attempt| attempt.epoch) else { return };
        let due: Vec<_> = self.begin_at.iter().filter(|(_, at)| **at <= now).map(|(node, _)| *node).collect();
        for node in due {
            self.begin_at.remove(&node);
            let Some(&revision) = self.members.get(&node) else { continue };
            let name = self.setup.view.lock().members.get(&node).map(|member| member.name.clone());
            let Some(name) = name else { continue };
            if self.peers.contains_key(&node) {
                continue;
            }
            let count = self.begun.entry((node, revision)).or_default();
            let Some(local) = Epoch::new(epoch, *count) else { continue };
            *count += 1;
            let session = Session::new(self.setup.session, local, revision, self.table.clone(), now);
            let peer =
                Arc::new(Peer::new(node, self.setup.codecs.clone(), self.port(&Identity { name, id: node }), session));
            self.setup.arrivals.push(Arrival::Begun(Arc::clone(&peer)));
            self.setup.view.change(|view| _ = view.peers.insert(node, Arc::clone(&peer)));
            self.peers.insert(node, Connected { peer, revision, is_closing: Cell::new(false) });
            self.ready.insert(node);
        }
    }

    fn port(&self, node: &Identity) -> Port {
        Port {
            engine: Arc::clone(&self.setup.engine),
            clock: Arc::clone(&self.setup.clock),
            gate: Arc::clone(&self.setup.gate),
            inbox: Arc::clone(&self.setup.inbox),
            arrivals: Arc::clone(&self.setup.arrivals),
            subjects: Lane::ALL.map(|lane| self.subjects.frame(node, lane, &self.own)),
        }
    }

    /// Ends a session from this side.
    fn end_session(&mut self, node: NodeId) {
        if let Some(connected) = self.peers.remove(&node) {
            connected.peer.abort();
            self.over(node, connected.peer);
        }
    }

    fn over(&mut self, node: NodeId, peer: Arc<Peer>) {
        self.setup.arrivals.push(Arrival::Ended(peer));
        self.setup.view.change(|view| {
            view.peers.remove(&node);
            if let Some(member) = view.members.get_mut(&node) {
                member.is_connected = false;
            }
        });
    }

    fn advance_sessions(&mut self, now: Moment) {
        let nodes: Vec<_> = self.peers.keys().copied().collect();
        for node in nodes {
            let Some(connected) = self.peers.get_mut(&node) else { continue };
            let peer = Arc::clone(&connected.peer);
            if peer.next_timeout().is_some_and(|next| next <= now) {
                peer.handle_timeout(now);
                self.ready.insert(node);
            }
            // A message that comes now stands behind the opening, and before the end.
            while let Some(event) = peer.poll_event() {
                self.session_event(now, node, &peer, event);
            }
        }
    }

    fn session_event(&mut self, now: Moment, node: NodeId, peer: &Arc<Peer>, event: Event) {
        match event {
            Event::Opened { table, .. } => {
                self.setup.arrivals.push(Arrival::Opened(Arc::clone(peer), table));
                self.ready.insert(node);
            }
            Event::Slow(_) | Event::Fast(_) => {}
            Event::Suspect => {
                if let Some(attempt) = &mut self.attempt {
                    attempt.membership.suspect(node);
                }
            }
            Event::Ended(end) => {
                // What is left to say is said by the last frames.
                peer.transmit();
                let Some(connected) = self.peers.remove(&node) else { return };
                if let (End::Left, Some(attempt)) = (&end, &mut self.attempt) {
                    attempt.membership.goodbye(node, connected.revision);
                }
                self.over(node, connected.peer);
                if self.leaving.is_none() && self.members.contains_key(&node) {
                    self.begin_at.insert(node, now + AGAIN);
                }
            }
        }
    }

    fn transmit(&mut self) {
        let ready: BTreeSet<_> =
            std::mem::take(&mut self.ready).into_iter().chain(std::mem::take(&mut self.busy)).collect();
        for node in ready {
            if self.peers.get(&node).is_some_and(|connected| connected.peer.transmit()) {
                self.busy.insert(node);
            }
        }
    }

    fn leave(&mut self, now: Moment, then: Completer<()>) {
        if let Some(leaving) = &mut self.leaving {
            return leaving.then.push(then);
        }
        self.join_at = None;
        self.leaving = Some(Leaving {
            then: vec![then],
            step: LeavingStep::Holders,
            until: now + self.setup.timing.grace + crate::session::LINGER,
            awaits_children: false,
        });
        let held = self.setup.view.names().leave();
        for pid in held {
            pid.cancel("its node leaves the cluster, and its names pass to others");
            self.condemned.push(Condemned { pid, at: now + self.setup.timing.grace });
        }
    }

    /// Goes on with leaving. Returns whether that is done.
    fn has_left(&mut self, now: Moment) -> bool {
        let is_refused = self.setup.view.lock().is_over.is_some();
        let Some(Leaving { step, until, awaits_children, .. }) = self.leaving else {
            return is_refused && self.end();
        };
        let is_late = now >= until;
        let awaits_children = || awaits_children && self.peers.values().any(|connected| connected.peer.has_children());
        match step {
            // One whose step does not end is left to the fencing token.
            LeavingStep::Holders if is_late || self.condemned.is_empty() && !awaits_children() => {
                // Those that have ended may not have been reported yet, and are not when the runtime is shut down.
                let mut names = self.setup.view.names();
                let holders = names.leave();
                holders.into_iter().filter(|pid| !pid.is_alive()).for_each(|pid| names.ended(pid));
                drop(names);
                self.go_on_leaving(LeavingStep::Peers, now + crate::session::LINGER);
            }
            LeavingStep::Peers => {
                let mut is_told = true;
                for (node, connected) in &self.peers {
                    if !connected.is_closing.get() && (connected.peer.is_flushed() || is_late) {
                        connected.is_closing.set(true);
                        connected.peer.close(now);
                        self.ready.insert(*node);
                    }
                    is_told &= connected.peer.has_ended();
                }
                if is_told || is_late {
                    if let Some(attempt) = &mut self.attempt {
                        attempt.membership.leave();
                        if let Some(lease) = &mut attempt.lease {
                            lease.release();
                        }
                    }
                    self.go_on_leaving(LeavingStep::Store, now + FAREWELL);
                }
            }
            LeavingStep::Store if is_late || (self.unanswered == 0 && self.setup.view.names().is_idle()) => {
                return self.end();
            }
            LeavingStep::Holders | LeavingStep::Store => {}
        }
        false
    }

    fn go_on_leaving(&mut self, next: LeavingStep, until: Moment) {
        if let Some(leaving) = &mut self.leaving {
            (leaving.step, leaving.until) = (next, until);
        }
    }

    fn end(&mut self) -> bool {
        self.has_ended = true;
        self.setup.gate.set(None);
        // If this is early, for whatever reason, none may act as the holder of a name any longer.
        let held = self.setup.view.names().fenced();
        held.into_iter().chain(self.condemned.drain(..).map(|condemned| condemned.pid)).for_each(|pid| _ = pid.kill());
        let peers: Vec<_> = self.peers.keys().copied().collect();
        peers.into_iter().for_each(|node| self.end_session(node));
        self.setup.view.change(|view| {
            view.is_member = false;
            view.members.clear();
            view.is_over.get_or_insert(None);
        });
        let then = self.leaving.take().map(|leaving| leaving.then).unwrap_or_default();
        self.setup.view.end_waits();
        self.setup.arrivals.push(Arrival::Closed(then));
        true
    }
}

impl Drop for Driver {
    /// What is asked for from now on is answered at once. If it has panicked, the node ends as one that was fenced.
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
