//! The directory of one node: its groups, eventual names, keys and topics, on top of the driver and the delivery.
//!
//! Users, the delivery and the porters change the state machines, under one lock. Only the **driver** acts on the
//! output of the state machines, in [`advance`](Directory::advance), so a peer receives their messages in order.
//! Broadcasts and events bypass the driver: they go from the user's thread directly to the peers or the broker. While
//! the lock is held, no other lock is taken and no user code runs.

mod advance;

use super::inbox::{Inbox, Input};
use super::peer::{Gate, Peer, SharedClock};
use super::porter::{Job, Porter};
use crate::clock::Moment;
use crate::codec::{Agreement, Codecs, as_text};
use crate::directory::message::DirectoryMessage;
use crate::engine::Engine;
use crate::eventual::EventualNames;
use crate::groups::{Groups, MembershipError};
use crate::keyed::{KeyRefusal, KeyedError, KeyedProcesses};
use crate::reply::{Completer, Pending, pair};
use crate::store::Change;
use postroom::routing::Node;
use postroom::{Address, ExitReason, Host, NodeId, Pid};
use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Number of porters that start processes by key. A guess: enough for a few slow starts at once, and few enough to
/// manage.
pub(crate) const STARTERS: u64 = 8;

/// The processes that run user code for a directory.
struct Porters {
    /// The porter that delivers messages to processes, and watches processes.
    hands_out: Address<Porter>,
    /// The porters that start processes by key. There are several, since an entry may take a long time.
    starters: Vec<Address<Porter>>,
}

impl Porters {
    fn stop(&self) {
        [&self.hands_out].into_iter().chain(&self.starters).for_each(|porter| _ = porter.pid().stop());
    }
}

/// The groups, eventual names, keys and topics of one node.
pub(crate) struct Directory {
    pub(crate) node: NodeId,
    pub(crate) host: Host,
    /// The name of the cluster.
    pub(crate) cluster: String,
    /// A weak reference, since the driver owns the engine: the engine's connections are closed when the node has left.
    pub(crate) engine: Weak<dyn Engine>,
    pub(crate) clock: SharedClock,
    pub(crate) gate: Arc<Gate>,
    pub(crate) codecs: Codecs,
    /// The agreement of this node with itself.
    pub(crate) own_agreement: Agreement,
    /// The node to which messages for local processes are delivered.
    pub(crate) local: Node,
    pub(crate) counters: DirectoryCounters,
    inbox: Arc<Inbox>,
    porters: OnceLock<Porters>,
    /// Whether the driver knows that there is something to do.
    is_announced: AtomicBool,
    state: Mutex<DirectoryState>,
    pub(crate) topics: Mutex<BTreeMap<(String, TypeId), Arc<dyn Channel>>>,
}

/// Counters of losses, by cause: see [`Cluster::statistics`](crate::Cluster::statistics).
#[derive(Debug, Default)]
pub(crate) struct DirectoryCounters {
    /// Copies of broadcasts and events for which there was no room.
    pub(crate) missed: AtomicU64,
    /// Events whose type has a different shape on their sender's node.
    pub(crate) mismatched: AtomicU64,
    /// Events that cannot be decoded.
    pub(crate) undecodable: AtomicU64,
}

/// The subscriptions of this node to one topic and type.
pub(crate) trait Channel: Send + Sync {
    /// Delivers some events, running user code. Returns whether there may be more.
    fn hand_out(&self, directory: &Directory) -> bool;
    fn subscribers(&self) -> &Mutex<BTreeSet<Pid>>;
}

/// The state machines, and the pending requests of users.
pub(crate) struct DirectoryState {
    pub(crate) groups: Groups,
    pub(crate) eventual: EventualNames,
    pub(crate) keys: KeyedProcesses,
    /// Peers with an open session.
    pub(crate) peers: BTreeMap<NodeId, Arc<Peer>>,
    listing: BTreeMap<u64, Completer<Result<Vec<Pid>, MembershipError>>>,
    asking: BTreeMap<u64, Completer<Result<Pid, KeyedError>>>,
    /// The time at which messages are offered to peers again; set while a peer has no room for one.
    blocked_until: Option<Moment>,
    /// Whether the node has left.
    pub(crate) is_over: bool,
}

/// The arguments for a directory.
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
    /// The longest message that a session accepts.
    pub(crate) longest: usize,
}

impl Directory {
    /// Returns a directory whose porters run on the host, or `None` if the host is being shut down.
    pub(crate) fn begin(parts: Parts) -> Option<Arc<Self>> {
        let local = Node::of(parts.node)?;
        let Parts { node, host, cluster, engine, clock, gate, codecs, exports, inbox, longest } = parts;
        let mut groups = Groups::new(node);
        groups.limit_lists(longest);
        let state = DirectoryState {
            groups,
            eventual: EventualNames::new(node),
            keys: KeyedProcesses::new(node, exports),
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
        // The reason is converted to text once, here, so that later uses, under the lock and for other nodes, run no
        // user code.
        let hands_out = Porter::begin(host, Box::new(move |pid, reason| hears.ended(pid, &as_text(reason))))?;
        let mut porters = Porters { hands_out, starters: Vec::new() };
        for _ in 0..STARTERS {
            let Some(starter) = Porter::begin(host, Box::new(|_, _| {})) else {
                porters.stop();
                return None;
            };
            porters.starters.push(starter);
        }
        directory.porters.set(porters).ok()?;
        Some(directory)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, DirectoryState> {
        // No user code runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Moment {
        (self.clock)()
    }

    /// Makes the driver perform the pending actions.
    pub(crate) fn announce(&self) {
        if !self.is_announced.swap(true, Ordering::AcqRel) {
            self.inbox.push(Input::Directory);
        }
    }

    /// Changes the state, and makes the driver act on it.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut DirectoryState) -> R) -> R {
        let result = change(&mut self.lock());
        self.announce();
        result
    }

    /// Runs a job that may contain user code.
    pub(crate) fn run(&self, job: Job) {
        if let Some(porters) = self.porters.get() {
            // A refused job is no longer needed: the runtime is being shut down.
            let _ = porters.hands_out.run(job).send();
        }
    }

    /// Starts the process of a key. A start that takes a long time, or never returns, delays only the keys of one
    /// porter.
    fn run_start(&self, process: &str, key: &str, job: Job) {
        if let Some(porters) = self.porters.get() {
            let mut hasher = DefaultHasher::new();
            (process, key).hash(&mut hasher);
            let starter = (hasher.finish() % STARTERS) as usize;
            let _ = porters.starters[starter].run(job).send();
        }
    }

    /// Watches for the end of a process. Returns false if the runtime is being shut down.
    pub(crate) fn watch(&self, pid: Pid) -> bool {
        self.porters.get().is_some_and(|porters| porters.hands_out.watch(pid).send().is_ok())
    }

    /// Records the end of a process. The reason must contain no user code, since it is used under the lock.
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

    /// Ends a subscription to a topic. Returns whether it existed.
    pub(crate) fn unsubscribe(&self, channel: &(String, TypeId), pid: Pid) -> bool {
        let mut topics = self.topics();
        let Some(subscribers) = topics.get(channel).map(|channel| channel.subscribers()) else { return false };
        let mut subscribers = subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        let (was_there, is_unused) = (subscribers.remove(&pid), subscribers.is_empty());
        drop(subscribers);
        let unused = is_unused.then(|| topics.remove(channel));
        drop(topics);
        // Dropped outside the lock, since this ends the engine's subscription.
        drop(unused);
        was_there
    }

    /// Requests the members of a group.
    pub(crate) fn members(&self, group: &str) -> Pending<Result<Vec<Pid>, MembershipError>> {
        let (pending, then) = pair(Err(MembershipError::Left));
        let mut state = self.lock();
        if state.is_over {
            // The lock is released first, since the answer may run user code.
            drop(state);
            return pending;
        }
        let number = state.groups.ask_members(group);
        state.listing.insert(number, then);
        drop(state);
        self.announce();
        pending
    }

    /// Requests the process of a key.
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

    /// Records an open session. Called by the delivery, in order with the messages of the session.
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

    /// Records the end of a session. Called by the delivery.
    pub(crate) fn disconnected(&self, node: NodeId) {
        let peer = self.change(|state| {
            state.groups.disconnected(node);
            state.eventual.disconnected(node);
            state.keys.disconnected(node);
            state.peers.remove(&node)
        });
        drop(peer);
    }

    /// Handles a message from a peer. Returns false if the peer is not allowed to send it.
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

    /// Refuses another node's request for the process of a key.
    pub(crate) fn refuse_key(&self, node: NodeId, number: u64, refusal: KeyRefusal) {
        self.change(|state| state.keys.refuse(node, number, refusal));
    }

    /// Returns the engine's callback for changes of the group counts.
    pub(crate) fn on_counts(self: &Arc<Self>) -> Box<dyn FnMut(Change) + Send> {
        let directory = Arc::clone(self);
        Box::new(move |change| directory.change(|state| state.groups.on_change(change)))
    }

    pub(crate) fn next_timeout(&self) -> Option<Moment> {
        self.lock().next_timeout()
    }

    /// Answers all pending requests, and stops the processes of keys and the porters: the node has left.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_over = true;
        // A start in progress checks `is_over` at its end, and stops its process itself.
        state.keys.set_member(false);
        let stops = state.take_stops();
        let waiting = (std::mem::take(&mut state.listing), std::mem::take(&mut state.asking));
        let peers = std::mem::take(&mut state.peers);
        drop(state);
        let topics = std::mem::take(&mut *self.topics());
        // Dropped outside the lock, since the answers may run user code.
        drop((waiting, peers, topics));
        stops.into_iter().for_each(|pid| _ = pid.stop());
        if let Some(porters) = self.porters.get() {
            porters.stop();
        }
    }
}

impl DirectoryState {
    fn next_timeout(&self) -> Option<Moment> {
        let next = [self.groups.next_timeout(), self.eventual.next_timeout(), self.keys.next_timeout()];
        next.into_iter().chain([self.blocked_until]).flatten().min()
    }
}
