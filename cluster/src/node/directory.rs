//! The directory of one node: its groups, eventual names, keys and topics, over the driver and the delivery.
//!
//! Users, the delivery and the porters change the state machines, under one lock; the **driver** alone acts on what
//! they want done, in [`advance`](Directory::advance): so what a peer is told of them it is told in order. Broadcasts
//! and events do not go that way, but from the thread of the user to the peers or the broker. Neither another lock is
//! taken nor a user's code run under the lock.

use super::inbox::{Inbox, Input};
use super::peer::{Gate, Peer, SharedClock};
use super::porter::{Job, Porter};
use crate::clock::Moment;
use crate::codec::{Agreement, Codecs, as_text};
use crate::directory::message::DirectoryMessage;
use crate::engine::{Bucket, Change, Engine, Revision};
use crate::eventual::EventualNames;
use crate::groups::{Groups, MembershipError};
use crate::keyed::{Found, KeyRefusal, KeyedError, Keys, Start};
use crate::reply::{Completer, Pending, pair};
use postroom::error::SendFailure;
use postroom::routing::Node;
use postroom::{Address, ExitReason, Host, NodeId, Pid, payloads};
use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// The wait before a peer without room is told again.
const BUSY: Duration = Duration::from_millis(5);

/// The groups, eventual names, keys and topics of one node.
pub(crate) struct Directory {
    pub(crate) node: NodeId,
    pub(crate) host: Host,
    /// The name of the cluster.
    pub(crate) cluster: String,
    /// The driver's: when the node has left, its connections end.
    pub(crate) engine: Weak<dyn Engine>,
    pub(crate) clock: SharedClock,
    pub(crate) gate: Arc<Gate>,
    pub(crate) codecs: Codecs,
    /// How this node speaks with itself.
    pub(crate) own_agreement: Agreement,
    /// Where processes of this node are delivered to.
    pub(crate) local: Node,
    pub(crate) counters: DirectoryCounters,
    inbox: Arc<Inbox>,
    /// Which hands out and watches, and which starts: an entry may take its time.
    porters: OnceLock<[Address<Porter>; 2]>,
    /// The driver knows that there is something to do.
    is_announced: AtomicBool,
    state: Mutex<State>,
    pub(crate) topics: Mutex<BTreeMap<(String, TypeId), Arc<dyn Channel>>>,
}

/// What was lost, and why: see [`Cluster::statistics`](crate::Cluster::statistics).
#[derive(Debug, Default)]
pub(crate) struct DirectoryCounters {
    /// Copies of broadcasts and of events that found no room.
    pub(crate) missed: AtomicU64,
    /// Events of another shape.
    pub(crate) mismatched: AtomicU64,
    /// Events that are none.
    pub(crate) undecodable: AtomicU64,
}

/// What this node has subscribed to, for one topic and type.
pub(crate) trait Channel: Send + Sync {
    /// Hands some events out, running users' code. Returns whether there may be more.
    fn hand_out(&self, directory: &Directory) -> bool;
    fn subscribers(&self) -> &Mutex<BTreeSet<Pid>>;
}

/// The state machines, and who waits for what.
pub(crate) struct State {
    pub(crate) groups: Groups,
    pub(crate) eventual: EventualNames,
    pub(crate) keys: Keys,
    /// Peers with an open session.
    pub(crate) peers: BTreeMap<NodeId, Arc<Peer>>,
    listing: BTreeMap<u64, Completer<Result<Vec<Pid>, MembershipError>>>,
    asking: BTreeMap<u64, Completer<Result<Pid, KeyedError>>>,
    /// A peer had no room for a message.
    blocked_until: Option<Moment>,
    /// The node has left.
    pub(crate) is_over: bool,
}

/// Which state machine a message is of.
#[derive(Clone, Copy)]
enum Part {
    Groups,
    Eventual,
    Keys,
}

/// What a directory is made from.
pub(crate) struct Parts {
    pub(crate) node: NodeId,
    pub(crate) host: Host,
    pub(crate) cluster: String,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: SharedClock,
    pub(crate) gate: Arc<Gate>,
    pub(crate) codecs: Codecs,
    pub(crate) exports: BTreeSet<&'static str>,
    pub(crate) inbox: Arc<Inbox>,
    /// The longest message of a session.
    pub(crate) longest: usize,
}

impl Directory {
    /// Returns a directory, whose porters run on the host. `None` if that is being shut down.
    pub(crate) fn begin(parts: Parts) -> Option<Arc<Self>> {
        let local = Node::of(parts.node)?;
        let Parts { node, host, cluster, engine, clock, gate, codecs, exports, inbox, longest } = parts;
        let mut groups = Groups::new(node);
        groups.limit_lists(longest);
        let state = State {
            groups,
            eventual: EventualNames::new(node),
            keys: Keys::new(node, exports),
            peers: BTreeMap::new(),
            listing: BTreeMap::new(),
            asking: BTreeMap::new(),
            blocked_until: None,
            is_over: false,
        };
        let directory = Arc::new(Self {
            node,
            host,
            cluster,
            engine: Arc::downgrade(&engine),
            clock,
            gate,
            own_agreement: codecs.agree(codecs.table()),
            local,
            codecs,
            counters: DirectoryCounters::default(),
            inbox,
            porters: OnceLock::new(),
            is_announced: AtomicBool::new(false),
            state: Mutex::new(state),
            topics: Mutex::default(),
        });
        let hears = Arc::clone(&directory);
        // Once, and here: what is told of it afterwards, under the lock and to other nodes, is no user's code any more.
        let hands_out = Porter::begin(host, Box::new(move |pid, reason| hears.ended(pid, &as_text(reason))))?;
        let Some(starts) = Porter::begin(host, Box::new(|_, _| {})) else {
            hands_out.pid().stop();
            return None;
        };
        directory.porters.set([hands_out, starts]).ok()?;
        Some(directory)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing of a user runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Moment {
        (self.clock)()
    }

    /// Has the driver do what there is to do.
    pub(crate) fn announce(&self) {
        if !self.is_announced.swap(true, Ordering::AcqRel) {
            self.inbox.push(Input::Directory);
        }
    }

    /// Changes the state, and has the driver act on it.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.lock());
        self.announce();
        result
    }

    /// Runs something that may be a user's code.
    pub(crate) fn run(&self, job: Job) {
        self.run_at(0, job);
    }

    fn run_at(&self, porter: usize, job: Job) {
        if let Some(porters) = self.porters.get() {
            // Refused, it is not needed any more: the runtime is being shut down.
            let _ = porters[porter].run(job).send();
        }
    }

    /// Has the end of a process heard. Returns false if the runtime is being shut down.
    pub(crate) fn watch(&self, pid: Pid) -> bool {
        self.porters.get().is_some_and(|porters| porters[0].watch(pid).send().is_ok())
    }

    /// A process has ended, for a reason without a user's code.
    pub(crate) fn ended(&self, pid: Pid, reason: &ExitReason) {
        self.change(|state| {
            state.groups.ended(pid, reason);
            state.eventual.ended(pid);
            state.keys.ended(pid);
        });
        self.unsubscribe_all(pid);
    }

    fn unsubscribe_all(&self, pid: Pid) {
        let channels: Vec<_> = self.topics().keys().cloned().collect();
        channels.iter().for_each(|channel| _ = self.unsubscribe(channel, pid));
    }

    pub(crate) fn topics(&self) -> MutexGuard<'_, BTreeMap<(String, TypeId), Arc<dyn Channel>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a subscription to a topic. Returns whether there was one.
    pub(crate) fn unsubscribe(&self, channel: &(String, TypeId), pid: Pid) -> bool {
        let mut topics = self.topics();
        let Some(subscribers) = topics.get(channel).map(|channel| channel.subscribers()) else { return false };
        let mut subscribers = subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        let (was_there, is_unused) = (subscribers.remove(&pid), subscribers.is_empty());
        drop(subscribers);
        let unused = is_unused.then(|| topics.remove(channel));
        drop(topics);
        // Without the lock: it ends the engine's subscription.
        drop(unused);
        was_there
    }

    /// Asks for the members of a group.
    pub(crate) fn members(&self, group: &str) -> Pending<Result<Vec<Pid>, MembershipError>> {
        let (pending, then) = pair(Err(MembershipError::Left));
        let mut state = self.lock();
        if state.is_over {
            // Outside the lock: what it answers is a user's.
            drop(state);
            return pending;
        }
        let number = state.groups.ask_members(group);
        state.listing.insert(number, then);
        drop(state);
        self.announce();
        pending
    }

    /// Asks for the process of a key.
    pub(crate) fn ask_key(&self, process: &str, entry: &str, key: &str) -> Pending<Result<Pid, KeyedError>> {
        let (pending, then) = pair(Err(KeyedError::NotAMember));
        let now = self.now();
        let mut state = self.lock();
        if state.is_over {
            drop(state);
            return pending;
        }
        let number = state.keys.ask(now, process, entry, key);
        state.asking.insert(number, then);
        drop(state);
        self.announce();
        pending
    }

    /// A session is open: by the delivery, in order with what arrives in it.
    pub(crate) fn connected(&self, peer: &Arc<Peer>) {
        let Some(agreement) = peer.agreement() else { return };
        let node = peer.node();
        self.change(|state| {
            let exports = state.keys.exports().filter(|process| agreement.can_start(process)).collect();
            state.peers.insert(node, Arc::clone(peer));
            state.groups.connected(node);
            state.eventual.connected(node);
            state.keys.connected(node, exports);
        });
    }

    /// The session is over: by the delivery.
    pub(crate) fn disconnected(&self, node: NodeId) {
        let peer = self.change(|state| {
            state.groups.disconnected(node);
            state.eventual.disconnected(node);
            state.keys.disconnected(node);
            state.peers.remove(&node)
        });
        drop(peer);
    }

    /// A message of a peer has arrived. Returns false if it may not say that.
    pub(crate) fn on_message(&self, from: NodeId, message: DirectoryMessage) -> bool {
        self.change(|state| match message {
            DirectoryMessage::Claim { .. } | DirectoryMessage::Unclaim { .. } => {
                state.eventual.on_message(from, message)
            }
            DirectoryMessage::AskKey { .. } | DirectoryMessage::KeyAt { .. } | DirectoryMessage::NoKey { .. } => {
                state.keys.on_message(from, message)
            }
            _ => state.groups.on_message(from, message),
        })
    }

    /// Refuses the question of another node for a key.
    pub(crate) fn refuse_key(&self, node: NodeId, number: u64, refusal: KeyRefusal) {
        self.change(|state| state.keys.refuse(node, number, refusal));
    }

    /// Returns what the engine calls with the changes of the counts of groups.
    pub(crate) fn on_counts(self: &Arc<Self>) -> Box<dyn FnMut(Change) + Send> {
        let directory = Arc::clone(self);
        Box::new(move |change| directory.change(|state| state.groups.on_change(change)))
    }

    /// Does all that there is to do; by the driver, which says whether this node is a member.
    pub(crate) fn advance(
        self: &Arc<Self>,
        now: Moment,
        epoch: Option<Revision>,
        members: &BTreeMap<NodeId, Revision>,
    ) {
        // First: what comes from now on is announced again.
        let is_announced = self.is_announced.swap(false, Ordering::AcqRel);
        let mut state = self.lock();
        let is_changed = state.groups.set_membership(epoch, members);
        if !is_announced && !is_changed && state.next_timeout().is_none_or(|at| now < at) {
            return;
        }
        state.keys.set_member(epoch.is_some());
        state.groups.handle_timeout(now);
        state.eventual.handle_timeout(now);
        state.keys.handle_timeout(now);
        if state.blocked_until.is_some_and(|until| until <= now) {
            state.blocked_until = None;
        }
        let requests: Vec<_> = std::iter::from_fn(|| state.groups.poll_request()).collect();
        let events: Vec<_> = std::iter::from_fn(|| state.groups.poll_events()).collect();
        let lost: Vec<_> = std::iter::from_fn(|| state.eventual.poll_lost()).collect();
        let starts: Vec<_> = std::iter::from_fn(|| state.keys.poll_start()).collect();
        let stops: Vec<_> = std::iter::from_fn(|| state.keys.poll_stop()).collect();
        let mut listed = Vec::new();
        while let Some(answer) = state.groups.poll_listed() {
            listed.extend(state.listing.remove(&answer.number).map(|then| (then, answer.members)));
        }
        let mut found = Vec::new();
        while let Some(Found { number, result }) = state.keys.poll_found() {
            found.extend(state.asking.remove(&number).map(|then| (then, result)));
        }
        let floods: Vec<_> =
            std::iter::from_fn(|| state.groups.poll_flood().or_else(|| state.keys.poll_flood())).collect();
        let floods: Vec<_> = floods.iter().filter_map(|node| state.peers.get(node).cloned()).collect();
        let peers: Vec<_> = match state.blocked_until {
            None => {
                let with_messages = state.peers.iter().filter(|(node, _)| state.has_message(**node));
                with_messages.map(|(node, peer)| (*node, Arc::clone(peer))).collect()
            }
            Some(_) => Vec::new(),
        };
        drop(state);
        for request in requests {
            let directory = Arc::clone(self);
            let then = move |answer| {
                let now = directory.now();
                directory.change(|state| state.groups.handle(now, request.number, answer));
            };
            // The driver has it while it calls this.
            if let Some(engine) = self.engine.upgrade() {
                request.access.perform(&*engine, Bucket::Groups, &request.key, then);
            }
        }
        events.into_iter().for_each(|(pid, events)| self.tell(pid, events, |event| &event.1, Told::Events));
        lost.into_iter().for_each(|(pid, lost)| self.tell(pid, lost, |lost| lost, Told::Lost));
        starts.into_iter().for_each(|start| self.start(start));
        stops.into_iter().for_each(|pid| _ = pid.stop());
        listed.into_iter().for_each(|(then, members)| then.complete(Ok(members)));
        found.into_iter().for_each(|(then, result)| then.complete(result));
        floods.into_iter().for_each(|peer| peer.end_flood());
        peers.into_iter().for_each(|(node, peer)| self.talk(now, node, &peer));
    }

    /// Tells a peer what there is to tell, as far as its session has room.
    fn talk(&self, now: Moment, node: NodeId, peer: &Peer) {
        loop {
            let mut state = self.lock();
            let message = state.poll_message(node);
            drop(state);
            let Some((part, message)) = message else { return };
            match peer.offer(&message) {
                // A session that is over is told of soon, which forgets what it was to be told.
                Ok(()) | Err(SendFailure::UnknownNode(_)) => {}
                Err(SendFailure::Full(_)) => {
                    let mut state = self.lock();
                    state.blocked_until = Some(now + BUSY);
                    match part {
                        Part::Groups => state.groups.refused(node, message),
                        Part::Eventual => state.eventual.refused(node, message),
                        Part::Keys => state.keys.refused(node, message),
                    }
                    return;
                }
                // The limits of names and of members keep each message short enough, unless the peer takes shorter
                // ones than this node. Who has asked for the members there gets an answer all the same.
                Err(_) => {
                    self.counters.missed.fetch_add(1, Ordering::Relaxed);
                    if let DirectoryMessage::Members { group, .. } = message {
                        let _ = peer.offer(&DirectoryMessage::Members { group, members: Vec::new() });
                    }
                }
            }
        }
    }

    /// Sends messages to a process of this node, which may run a user's code. `then` gets those without room.
    fn tell<T: Send + 'static, M: Clone + Send + 'static>(
        self: &Arc<Self>,
        pid: Pid,
        messages: Vec<T>,
        message: impl Fn(&T) -> &M + Send + 'static,
        told: impl FnOnce(Vec<T>) -> Told + Send + 'static,
    ) {
        let directory = Arc::clone(self);
        self.run(Box::new(move || {
            let mut refused = Vec::new();
            for notice in messages {
                // Behind one that was refused, the others wait too.
                let is_refused = !refused.is_empty()
                    || matches!(
                        directory.host.try_send(pid, message(&notice).clone()),
                        Err(error) if matches!(error.reason, SendFailure::Full(_))
                    );
                if is_refused {
                    refused.push(notice);
                }
            }
            let now = directory.now();
            directory.change(|state| match told(refused) {
                Told::Events(refused) => state.groups.told(now, pid, refused),
                Told::Lost(refused) => state.eventual.told(now, pid, refused),
            });
        }));
    }

    /// Starts the process of a key.
    fn start(self: &Arc<Self>, start: Start) {
        let directory = Arc::clone(self);
        self.run_at(
            1,
            Box::new(move || {
                let Start { process, key, entry } = &start;
                let begin = || directory.host.start(process, entry, payloads![key.clone()]);
                let started = catch_unwind(AssertUnwindSafe(begin));
                let result = match started {
                    Ok(result) => result.map_err(|error| error.to_string()),
                    Err(panic) => {
                        // Its drop may panic again.
                        std::mem::forget(panic);
                        Err("the start has panicked".into())
                    }
                };
                let pid = result.as_ref().ok().copied();
                directory.change(|state| state.keys.started(&start, result));
                pid.map(|pid| directory.watch(pid));
            }),
        );
    }

    pub(crate) fn next_timeout(&self) -> Option<Moment> {
        self.lock().next_timeout()
    }

    /// The node has left: answers who waits, and ends what it has begun.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_over = true;
        let waiting = (std::mem::take(&mut state.listing), std::mem::take(&mut state.asking));
        let peers = std::mem::take(&mut state.peers);
        drop(state);
        let topics = std::mem::take(&mut *self.topics());
        // Outside the lock: what they answer is a user's.
        drop((waiting, peers, topics));
        self.porters.get().into_iter().flatten().for_each(|porter| _ = porter.pid().stop());
    }
}

/// What a process was told.
enum Told {
    Events(Vec<(u64, postroom::GroupEvent)>),
    Lost(Vec<crate::eventual::NameLost>),
}

impl State {
    fn next_timeout(&self) -> Option<Moment> {
        let next = [self.groups.next_timeout(), self.eventual.next_timeout(), self.keys.next_timeout()];
        next.into_iter().chain([self.blocked_until]).flatten().min()
    }

    fn has_message(&self, node: NodeId) -> bool {
        self.groups.has_message(node) || self.eventual.has_message(node) || self.keys.has_message(node)
    }

    /// Returns the next message for a peer.
    fn poll_message(&mut self, node: NodeId) -> Option<(Part, DirectoryMessage)> {
        let groups = self.groups.poll_message(node).map(|message| (Part::Groups, message));
        let eventual = || self.eventual.poll_message(node).map(|message| (Part::Eventual, message));
        groups.or_else(eventual).or_else(|| self.keys.poll_message(node).map(|message| (Part::Keys, message)))
    }
}
