//! The directory of one node: its groups, eventual names, keys and topics, over the driver and the delivery.
//!
//! Users, the delivery and the porters change the state machines, under one lock; the **driver** alone acts on what
//! they want done, in [`advance`](Directory::advance): so what a peer is told of them it is told in order. Broadcasts
//! and events do not go that way, but from the thread of the user to the peers or the broker. Neither another lock is
//! taken nor a user's code run under the lock.

mod advance;

use super::inbox::{Inbox, Input};
use super::peer::{Gate, Peer, SharedClock};
use super::porter::{Job, Porter};
use crate::clock::Moment;
use crate::codec::{Agreement, Codecs, as_text};
use crate::directory::message::DirectoryMessage;
use crate::engine::{Change, Engine};
use crate::eventual::EventualNames;
use crate::groups::{Groups, MembershipError};
use crate::keyed::{KeyRefusal, KeyedError, KeyedProcesses};
use crate::reply::{Completer, Pending, pair};
use postroom::routing::Node;
use postroom::{Address, ExitReason, Host, NodeId, Pid};
use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// How many processes start those of keys. A guess: more than a few that take their time at once, and few to look at.
pub(crate) const STARTERS: u64 = 8;

/// What runs users' code for a directory.
struct Porters {
    /// Hands out, and watches.
    hands_out: Address<Porter>,
    /// They start processes by key: an entry may take its time.
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
    porters: OnceLock<Porters>,
    /// The driver knows that there is something to do.
    is_announced: AtomicBool,
    state: Mutex<DirectoryState>,
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
pub(crate) struct DirectoryState {
    pub(crate) groups: Groups,
    pub(crate) eventual: EventualNames,
    pub(crate) keys: KeyedProcesses,
    /// Peers with an open session.
    pub(crate) peers: BTreeMap<NodeId, Arc<Peer>>,
    listing: BTreeMap<u64, Completer<Result<Vec<Pid>, MembershipError>>>,
    asking: BTreeMap<u64, Completer<Result<Pid, KeyedError>>>,
    /// A peer had no room for a message.
    blocked_until: Option<Moment>,
    /// The node has left.
    pub(crate) is_over: bool,
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
        // Once, and here: what is told of it afterwards, under the lock and to other nodes, is no user's code any more.
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
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut DirectoryState) -> R) -> R {
        let result = change(&mut self.lock());
        self.announce();
        result
    }

    /// Runs something that may be a user's code.
    pub(crate) fn run(&self, job: Job) {
        if let Some(porters) = self.porters.get() {
            // Refused, it is not needed any more: the runtime is being shut down.
            let _ = porters.hands_out.run(job).send();
        }
    }

    /// Runs the start of a process of a key. One that takes long, or never returns, delays some others, and not all.
    fn run_start(&self, process: &str, key: &str, job: Job) {
        if let Some(porters) = self.porters.get() {
            let mut hasher = DefaultHasher::new();
            (process, key).hash(&mut hasher);
            let starter = (hasher.finish() % STARTERS) as usize;
            let _ = porters.starters[starter].run(job).send();
        }
    }

    /// Has the end of a process heard. Returns false if the runtime is being shut down.
    pub(crate) fn watch(&self, pid: Pid) -> bool {
        self.porters.get().is_some_and(|porters| porters.hands_out.watch(pid).send().is_ok())
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

    pub(crate) fn next_timeout(&self) -> Option<Moment> {
        self.lock().next_timeout()
    }

    /// The node has left: answers who waits, and ends what it has begun.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_over = true;
        // A start that is running finds this.
        state.keys.set_member(false);
        let stops = state.take_stops();
        let waiting = (std::mem::take(&mut state.listing), std::mem::take(&mut state.asking));
        let peers = std::mem::take(&mut state.peers);
        drop(state);
        let topics = std::mem::take(&mut *self.topics());
        // Outside the lock: what they answer is a user's.
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
