//! A node's place in a cluster, as its program uses it.

mod asking;
mod keyed_start;
mod named;
mod placement;

use crate::clock::SystemClock;
use crate::codec::{CodecError, Codecs, CodecsBuilder, ExportError};
use crate::engine::{Connect, Engine, SubscribeError};
use crate::lease::{Timing, TimingError};
use crate::membership::{self, Record, RecordError};
use crate::names::{RegisterError, Token};
use crate::node::delivery::{self, Arrivals, Counters, Delivery};
use crate::node::directory::{Directory, Parts};
use crate::node::driver::{Driver, Setup};
use crate::node::inbox::{Inbox, Input};
use crate::node::keys::{Keys, MAX_KEY};
use crate::node::peer::{Gate, Peer, SharedClock};
use crate::node::porter::{OnEnd, Porter};
use crate::node::view::View;
use crate::policy::{Allow, Policy};
use crate::reply::{Pending, pair};
use crate::session::Config;
use crate::subject::is_subject;
use postroom::generic::Addressed;
use postroom::remote::Remote;
use postroom::routing::Node;
use postroom::{Address, Bound, Host, NodeId, Payloads, Pid};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

pub use crate::node::view::Member;
pub use named::NamedError;

mod eventual;
mod group;
mod keyed;
mod topic;

pub use group::{Broadcast, BroadcastError, ClusterGroup};
pub use keyed::Keyed;
pub use topic::ClusterTopic;

/// How long [`Builder::join`] waits unless it is told otherwise: a change of the store's leader, and a lease.
const JOIN_TIME: Duration = Duration::from_secs(30);

/// The most nodes of a cluster, unless [`Builder::max_nodes`] says otherwise: each has a session with each other.
const MAX_NODES: usize = 1_024;

/// A node of a cluster. Clones are the same node; it leaves with [`leave`](Self::leave), or when the last clone is
/// dropped.
///
/// ```
/// use postroom::prelude::*;
/// use postroom_cluster::Cluster;
/// use postroom_cluster::memory::Broker;
///
/// #[process]
/// #[derive(Default)]
/// struct Account { balance: i64 }
///
/// #[process(remote)]
/// impl Account {
///     #[entry]
///     fn serve(&mut self, opening: i64) { self.balance = opening; }
///     #[message]
///     fn deposit(&mut self, amount: i64) -> i64 { self.balance += amount; self.balance }
/// }
///
/// let runtime = Runtime::new()?;
/// let broker = Broker::new();
/// let _running = broker.run();
/// let cluster = Cluster::builder("bank").node("eu-1").export::<Account>().join(&runtime, broker.connect())?;
/// let account = cluster.any::<Account>()?.start::<Account>("serve", payloads![100]).wait()?;
/// assert_eq!(account.deposit(5).wait()?, 105);
/// let token = cluster.register("acct-7", account).wait()?;
/// assert_eq!(cluster.holder("acct-7"), Some((account.pid(), token)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
}

struct Shared {
    id: NodeId,
    name: String,
    host: Host,
    inbox: Arc<Inbox>,
    view: Arc<View>,
    /// The driver's: when the node has left, its connections end.
    engine: Weak<dyn Engine>,
    counters: Arc<Counters>,
    /// Which member is asked next by [`Cluster::any`].
    turn: AtomicUsize,
    /// The names of the types that this node exports.
    exports: BTreeSet<&'static str>,
    /// The keys of processes that were started here.
    keys: Arc<Keys>,
    /// The addresses that follow names.
    pointers: named::Pointers,
    directory: Arc<Directory>,
}

/// Joins a cluster: made by [`Cluster::builder`].
#[must_use = "call `join`"]
pub struct Builder {
    cluster: String,
    node: Option<String>,
    codecs: CodecsBuilder,
    exports: BTreeMap<&'static str, Box<dyn FnOnce(Host) + Send>>,
    timing: Timing,
    session: Config,
    max_nodes: usize,
    join_time: Duration,
    allow: Option<Arc<Allow>>,
}

/// Why a node did not join.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The cluster's name cannot be part of a subject.
    #[error("`{name}` cannot name a cluster; use letters, digits, `-` and `_`, at most 64 bytes")]
    ClusterName {
        /// The name.
        name: String,
    },
    /// The node's name cannot be one.
    #[error(transparent)]
    NodeName(#[from] RecordError),
    /// An exported type cannot be.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The times of the lease are not safe.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// The engine cannot be made.
    #[error("{0}")]
    Engine(String),
    /// A window of the sessions is too small.
    #[error("a window of the sessions has no room for a parcel; make it 64 KiB and 64 bytes at least")]
    Window,
    /// The engine takes no subscription.
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
    /// The runtime is being shut down.
    #[error("the runtime is being shut down; join while it runs")]
    Runtime,
    /// The store refuses this node.
    #[error(transparent)]
    Membership(#[from] membership::JoinError),
    /// The broker does not take this node, and that does not end by itself.
    #[error("{problem}")]
    Broker {
        /// What the engine says, and what to do about it.
        problem: String,
    },
    /// The node is not a member yet.
    #[error("no member after {waited:?}: check that the broker runs, has its store, and can be reached from here")]
    Timeout {
        /// How long it has waited.
        waited: Duration,
    },
    /// The system gives no thread.
    #[error("the system gives no thread: {0}")]
    Thread(String),
}

/// Why there is no such node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// No member has the name.
    #[error("no other node of the cluster is called `{name}`; there are {}", listed(members))]
    Unknown {
        /// The name.
        name: String,
        /// The names of the members.
        members: Vec<String>,
    },
    /// No member that there is a session with exports the type.
    #[error("no node of the cluster that can be reached exports `{process}`; export it with `.export::<{process}>()`")]
    NotExported {
        /// The type.
        process: &'static str,
    },
}

fn listed(members: &[String]) -> String {
    if members.is_empty() { "none".into() } else { members.join(", ") }
}

/// Why a process was not started on another node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The node is no member any more, or there is no session with it.
    #[error("node `{node}` cannot be reached; ask for another with `cluster.any`, or wait until it is back")]
    Unreachable {
        /// Its name.
        node: String,
    },
    /// The inputs do not fit the entry, or the type is not exported here.
    #[error(transparent)]
    Inputs(#[from] CodecError),
    /// The node has refused.
    #[error("node `{node}` has not said that it was started: {reason}")]
    Refused {
        /// Its name.
        node: String,
        /// What it says.
        reason: String,
    },
    /// The node's policy says no.
    #[error("node `{node}` does not allow the start; change what it allows with `Builder::allow` there")]
    Denied {
        /// Its name.
        node: String,
    },
    /// The key belongs to a process of another type.
    #[error("node `{node}` has started `{process}` with this key; use another key for each type")]
    KeyTaken {
        /// The node's name.
        node: String,
        /// The type of the process that the key belongs to.
        process: String,
    },
    /// The key has no bytes, or too many.
    #[error("the key of a start has {bytes} bytes; use 1 to {MAX_KEY}")]
    KeyLength {
        /// How many.
        bytes: usize,
    },
}

impl Builder {
    /// Names this node, for people and for placement: `eu-1`. Without a name it is called after its ID. A broker with
    /// permissions binds the name to the node's key: it is who the node is.
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = Some(name.into());
        self
    }

    /// Lets other nodes start processes of this type and send messages to them. **Only what is exported can be
    /// reached.** Nodes that only send to such processes export the type too, to know its messages. A start from
    /// elsewhere begins with `P::default()`.
    pub fn export<P: Remote + postroom::generic::Migratable + Default>(mut self) -> Self {
        self.codecs = self.codecs.export::<P>();
        self.exports.insert(P::NAME, Box::new(|host| host.register_type::<P>()));
        self
    }

    /// Sets the times of the lease. All nodes of a cluster are to have the same.
    pub fn lease(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Sets the limits of sessions. All nodes of a cluster are to have the same.
    pub fn sessions(mut self, config: Config) -> Self {
        self.session = config;
        self
    }

    /// Sets the most nodes that the cluster may have, this one included; 1,024 unless it is said here. A node that
    /// finds so many is refused. All nodes of a cluster are to have the same.
    pub fn max_nodes(mut self, nodes: usize) -> Self {
        self.max_nodes = nodes;
        self
    }

    /// How long [`join`](Self::join) waits; 30 seconds unless it is said here.
    pub fn join_within(mut self, time: Duration) -> Self {
        self.join_time = time;
        self
    }

    /// Joins the cluster that `engine` connects with, and waits until this node is a member. That is an engine, or
    /// `Nats::at(…)`. The processes of `host`, a runtime, become reachable. A node takes two threads.
    ///
    /// # Errors
    /// [`JoinError`], which says what to do.
    pub fn join(self, host: &Host, engine: impl Connect) -> Result<Cluster, JoinError> {
        self.join_async(host, engine).wait()
    }

    /// Like [`join`](Self::join), to be awaited: no thread waits. The node joins whether this is awaited or dropped;
    /// then it leaves when it has joined.
    ///
    /// In a [simulated test](mod@postroom::test) the node takes no threads: its parts are processes of `host`, and its
    /// time and its chance are the simulation's.
    pub fn join_async(self, host: &Host, engine: impl Connect) -> Pending<Result<Cluster, JoinError>> {
        let (pending, then) = pair(Err(JoinError::Runtime));
        let waited = self.join_time;
        let cluster = match self.begin(host, engine) {
            Ok(cluster) => cluster,
            Err(error) => {
                then.complete(Err(error));
                return pending;
            }
        };
        let (inbox, view) = (Arc::clone(&cluster.shared.inbox), Arc::clone(&cluster.shared.view));
        let mut waiting = Some((then, cluster));
        let check = move |is_late: bool| {
            let view = view.lock();
            let refused = match (&view.is_over, view.is_member) {
                (Some(Some(error)), _) => Some(error.clone().into()),
                (Some(None), _) => Some(JoinError::Runtime),
                (None, true) => None,
                (None, false) => match waiting.as_ref().and_then(|(_, cluster)| cluster.obstacle()) {
                    Some(problem) => Some(JoinError::Broker { problem }),
                    None if is_late => Some(JoinError::Timeout { waited }),
                    None => return None,
                },
            };
            drop(view);
            let (then, cluster) = waiting.take()?;
            let joined = refused.map_or(Ok(cluster), Err);
            Some(Box::new(move || then.complete(joined)) as Box<dyn FnOnce() + Send>)
        };
        inbox.push(Input::Wait { time: waited, check: Box::new(check) });
        pending
    }

    /// Begins to join.
    pub(crate) fn begin(self, host: &Host, engine: impl Connect) -> Result<Cluster, JoinError> {
        let node = self.node.clone().unwrap_or_else(|| host.node().to_string());
        Record::new(node.clone(), 0)?;
        let engine = engine.connect(&self.cluster, &node).map_err(|error| JoinError::Engine(error.to_string()))?;
        let engine = Arc::new(engine);
        #[cfg(any(test, feature = "test"))]
        if let Some(sim) = postroom::test::Sim::current() {
            return crate::testing::turns::begin(self, &sim, *host, engine).map(|begun| begun.cluster);
        }
        let (cluster, driver, delivery) = self.prepare(*host, engine, Arc::new(|| SystemClock.now()))?;
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            let thread = thread::Builder::new().name(name.into()).spawn(run);
            thread.map(drop).map_err(|error| JoinError::Thread(error.to_string()))
        };
        spawn("postroom-deliver", Box::new(move || delivery.run_to_end()))?;
        spawn("postroom-cluster", Box::new(move || driver.run_to_end()))?;
        Ok(cluster)
    }

    /// Makes the parts of a node, without threads.
    pub(crate) fn prepare(
        self,
        host: Host,
        engine: Arc<dyn Engine>,
        clock: SharedClock,
    ) -> Result<(Cluster, Driver, Delivery), JoinError> {
        let is_name = self.cluster.len() <= 64 && is_subject(&self.cluster) && !self.cluster.contains('.');
        if !is_name {
            return Err(JoinError::ClusterName { name: self.cluster });
        }
        self.timing.check()?;
        if !self.session.data.have_room() || !self.session.control.have_room() {
            return Err(JoinError::Window);
        }
        let codecs = self.codecs.build()?;
        let id = host.node();
        let node = Node::of(id).ok_or(JoinError::Runtime)?;
        let name = self.node.unwrap_or_else(|| id.to_string());
        Record::new(name.clone(), 0)?;
        let exports: BTreeSet<_> = self.exports.keys().copied().collect();
        self.exports.into_values().for_each(|register| register(host));
        let (inbox, arrivals, view) = (Arc::<Inbox>::default(), Arc::<Arrivals>::default(), Arc::<View>::default());
        let counters = Arc::<Counters>::default();
        let keys = Arc::new(Keys::new(Arc::clone(&clock), Arc::clone(&counters)));
        let ended = Arc::clone(&inbox);
        let porter = |on_end: OnEnd| {
            let porter = Porter { on_end, watched: BTreeSet::new() };
            host.spawn(porter).mailbox(Bound::Unbounded).serve().map_err(|_| JoinError::Runtime)
        };
        let porters = [porter(Box::new(|_| {}))?, porter(Box::new(move |pid| ended.push(Input::Ended(pid))))?];
        let allow = self.allow.map(|allow| porter(Box::new(|_| {})).map(|judge| (allow, judge))).transpose()?;
        let policy = Policy::new(allow, Arc::clone(&view), Arc::clone(&counters.policy));
        let weak = Arc::downgrade(&engine);
        let gate = Arc::<Gate>::default();
        let parts = Parts {
            node: id,
            host,
            cluster: self.cluster.clone(),
            engine: Arc::clone(&engine),
            clock: Arc::clone(&clock),
            gate: Arc::clone(&gate),
            codecs: codecs.clone(),
            exports: exports.clone(),
            inbox: Arc::clone(&inbox),
        };
        let directory = Directory::begin(parts).ok_or(JoinError::Runtime)?;
        let setup = Setup {
            cluster: self.cluster,
            name: name.clone(),
            node: id,
            engine,
            clock,
            gate,
            timing: self.timing,
            session: self.session,
            max_nodes: self.max_nodes,
            codecs,
            inbox: Arc::clone(&inbox),
            arrivals: Arc::clone(&arrivals),
            counters: Arc::clone(&counters),
            view: Arc::clone(&view),
            porter: porters[1],
            directory: Arc::clone(&directory),
            draw: Box::new(draw),
        };
        let driver = Driver::new(setup).inspect_err(|_| {
            porters.iter().for_each(|porter| _ = porter.pid().stop());
            directory.close();
        })?;
        let delivery = Delivery::new(delivery::Setup {
            node,
            host,
            porters,
            arrivals,
            counters: Arc::clone(&counters),
            policy,
            view: Arc::clone(&view),
            keys: Arc::clone(&keys),
            directory: Arc::clone(&directory),
        });
        let (turn, pointers) = Default::default();
        let engine = weak;
        let shared = Shared { id, name, host, inbox, view, engine, counters, turn, exports, keys, pointers, directory };
        Ok((Cluster { shared: Arc::new(shared) }, driver, delivery))
    }
}

/// Draws a number: std's hasher is seeded by the system.
fn draw() -> u64 {
    #[cfg(any(test, feature = "test"))]
    if let Some(sim) = postroom::test::Sim::current() {
        return sim.random();
    }
    static COUNT: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one(COUNT.fetch_add(1, Ordering::Relaxed))
}

impl Cluster {
    /// Begins to join the cluster of this name.
    pub fn builder(cluster: impl Into<String>) -> Builder {
        Builder {
            cluster: cluster.into(),
            node: None,
            codecs: Codecs::builder(),
            exports: BTreeMap::new(),
            timing: Timing::default(),
            session: Config::default(),
            max_nodes: MAX_NODES,
            join_time: JOIN_TIME,
            allow: None,
        }
    }

    fn obstacle(&self) -> Option<String> {
        self.shared.engine.upgrade()?.obstacle()
    }

    /// Returns this node's ID.
    pub fn id(&self) -> NodeId {
        self.shared.id
    }

    /// Returns this node's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Returns whether this node is a member now. It is none while it is cut off, and joins again by itself.
    pub fn is_member(&self) -> bool {
        self.shared.view.lock().is_member
    }

    /// Returns the other members, as this node sees them.
    pub fn members(&self) -> Vec<Member> {
        self.shared.view.lock().members.values().cloned().collect()
    }

    /// Waits until there are sessions with `count` other nodes, for at most `time`. Returns whether there are.
    pub fn wait_for_members(&self, count: usize, time: Duration) -> bool {
        self.wait_for_members_async(count, time).wait()
    }

    /// Like [`wait_for_members`](Self::wait_for_members), to be awaited.
    pub fn wait_for_members_async(&self, count: usize, time: Duration) -> Pending<bool> {
        let (pending, then) = pair(false);
        let view = Arc::clone(&self.shared.view);
        let mut then = Some(then);
        let check = move |is_late: bool| {
            let connected = view.lock().members.values().filter(|member| member.is_connected).count();
            if connected < count && !is_late {
                return None;
            }
            let then = then.take()?;
            Some(Box::new(move || then.complete(connected >= count)) as Box<dyn FnOnce() + Send>)
        };
        self.shared.inbox.push(Input::Wait { time, check: Box::new(check) });
        pending
    }

    /// Returns the member of this name, to start processes there. If several have it, the one with the smallest ID.
    ///
    /// # Errors
    /// [`NodeError::Unknown`], which lists the members.
    pub fn node(&self, name: &str) -> Result<RemoteNode, NodeError> {
        let view = self.shared.view.lock();
        match view.members.values().find(|member| member.name == name) {
            Some(member) => {
                Ok(RemoteNode { cluster: self.clone(), id: member.id, name: name.to_owned(), is_any: false })
            }
            None => {
                let members = view.members.values().map(|member| member.name.clone()).collect();
                Err(NodeError::Unknown { name: name.to_owned(), members })
            }
        }
    }

    /// Returns this node, or another that exports `P`, each in turn.
    ///
    /// # Errors
    /// [`NodeError::NotExported`]
    pub fn any<P: Remote>(&self) -> Result<RemoteNode, NodeError> {
        self.any_with(P::NAME)
    }

    fn any_with(&self, process: &'static str) -> Result<RemoteNode, NodeError> {
        let nodes = self.exporters(process);
        if nodes.is_empty() {
            return Err(NodeError::NotExported { process });
        }
        let id = nodes[self.shared.turn.fetch_add(1, Ordering::Relaxed) % nodes.len()];
        Ok(RemoteNode { cluster: self.clone(), id, name: self.name_of(id), is_any: true })
    }

    /// Returns the nodes that a process of this type can be started on.
    fn exporters(&self, process: &str) -> Vec<NodeId> {
        let shared = &self.shared;
        let view = shared.view.lock();
        let exports = |peer: &&Arc<Peer>| peer.agreement().is_some_and(|agreement| agreement.can_start(process));
        let peers = view.peers.values().filter(exports).map(|peer| peer.node());
        let own = shared.exports.contains(process).then_some(shared.id);
        peers.chain(own).collect()
    }

    fn name_of(&self, id: NodeId) -> String {
        let view = self.shared.view.lock();
        view.members.get(&id).map_or_else(|| self.shared.name.clone(), |member| member.name.clone())
    }

    /// Registers a name of the cluster for a process of this node. One process holds it, until it ends, gives it up
    /// with [`release`](Self::release), or its node is lost. The result is the fencing [`Token`].
    ///
    /// # Errors
    /// The pending result is [`RegisterError::Taken`] if another process has the name, and without a majority of the
    /// broker's servers an error, not a wait.
    pub fn register(&self, name: impl Into<String>, process: impl Into<Pid>) -> Pending<Result<Token, RegisterError>> {
        let (pid, name) = (held_by(process.into()), name.into());
        let (pending, then) = pair(Err(RegisterError::NotAMember));
        if pid.node() == self.shared.id {
            self.shared.inbox.push(Input::Register { name, pid, then });
        } else {
            then.complete(Err(RegisterError::Elsewhere { pid }));
        }
        pending
    }

    /// Gives a name up. The result is whether the process had it.
    pub fn release(&self, name: impl Into<String>, process: impl Into<Pid>) -> Pending<bool> {
        let (pending, then) = pair(false);
        self.shared.inbox.push(Input::Release { name: name.into(), pid: held_by(process.into()), then });
        pending
    }

    /// Returns the holder of a name and its token, as this node has last heard: that may be out of date.
    pub fn holder(&self, name: &str) -> Option<(Pid, Token)> {
        self.shared.view.names().holder(name)
    }

    /// Leaves the cluster: holders of names are cancelled, and killed if they have not ended after four seconds; their
    /// names are free; what is queued is still sent, and the peers are told, for which each gets three seconds.
    pub fn leave(&self) -> Pending<()> {
        let (pending, then) = pair(());
        self.shared.inbox.push(Input::Leave(then));
        pending
    }

    /// Returns what this node could not deliver, or does not know to be delivered.
    pub fn statistics(&self) -> Statistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.shared.counters;
        let directory = &self.shared.directory.counters;
        Statistics {
            missed: read(&directory.missed),
            mismatched: read(&directory.mismatched),
            undecodable: read(&counters.undecodable) + read(&directory.undecodable),
            undelivered: read(&counters.undelivered),
            returned: read(&counters.returned),
            unconfirmed: read(&counters.unconfirmed),
            forgotten_keys: read(&counters.forgotten_keys),
            broken_frames: read(&counters.broken_frames),
            refused: read(&counters.policy.refused),
            policy_panics: read(&counters.policy.panicked),
            denied: read(&counters.policy.denied),
            forged_frames: read(&counters.forged_frames),
            dropped_strays: self.shared.inbox.dropped(),
            claimed_ids: read(&counters.claimed_ids),
            unreadable_records: read(&counters.unreadable_records),
            refused_by_broker: self.shared.engine.upgrade().map_or(0, |engine| engine.refused()),
        }
    }
}

/// Returns the process that holds what is given to `pid`: that of an address that outlives it, such as a supervised
/// child's. What it holds ends with it.
fn held_by(pid: Pid) -> Pid {
    pid.resolve().unwrap_or(pid)
}

impl Drop for Shared {
    fn drop(&mut self) {
        let (_, then) = pair(());
        self.inbox.push(Input::Leave(then));
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("id", &self.id()).field("is_member", &self.is_member()).finish_non_exhaustive()
    }
}

/// What a node could not deliver, or does not know to be delivered, since it joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Messages, answers and inputs that it could not decode, or does not know.
    pub undecodable: u64,
    /// Messages whose process had ended.
    pub undelivered: u64,
    /// Messages that had waited for a session with a node which then did not know them.
    pub returned: u64,
    /// Messages that it has sent, or accepted to send, to a node that was lost before it had confirmed them: they may
    /// have arrived.
    pub unconfirmed: u64,
    /// Keys of starts that it forgot before their time, since there were too many.
    pub forgotten_keys: u64,
    /// Frames that were none.
    pub broken_frames: u64,
    /// Requests of other nodes that its [policy](Builder::allow) has refused.
    pub refused: u64,
    /// Those of them for which the policy has panicked.
    pub policy_panics: u64,
    /// Requests to end a process, sent with [`Pid::stop`], [`Pid::cancel`] or [`Pid::kill`], that the policies of other
    /// nodes have refused.
    pub denied: u64,
    /// Frames that did not come on the subject of the node that they are of: some program forges them.
    pub forged_frames: u64,
    /// Frames of nodes without a session that were dropped because too many waited. They are sent again.
    pub dropped_strays: u64,
    /// Records in which a node claims the ID of another.
    pub claimed_ids: u64,
    /// Records of nodes that cannot be read.
    pub unreadable_records: u64,
    /// What the broker has refused because this node has no right to it: its key is that of another name, for example.
    pub refused_by_broker: u64,
    /// Copies of broadcasts and of events of topics that found no room.
    pub missed: u64,
    /// Events of topics of a type with another shape.
    pub mismatched: u64,
}

/// A node of the cluster, to start processes on: made by [`Cluster::node`] and [`Cluster::any`].
#[derive(Clone, Debug)]
pub struct RemoteNode {
    cluster: Cluster,
    id: NodeId,
    name: String,
    /// Any other that exports the type would do.
    is_any: bool,
}

impl RemoteNode {
    /// Returns its ID.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts a `P` at this entry, with inputs as for [`Host::start`](postroom::Host::start); they are checked here.
    /// Begins when the result is waited for, or polled for the first time.
    ///
    /// # Errors
    /// The result is an error if the inputs do not fit, or the node cannot be reached or refuses. If it is lost before
    /// it answers, the process may have been started: it ends with its node, or goes on without you. With a
    /// [key](Starting::key), the start can be repeated.
    pub fn start<P: Remote + Addressed>(&self, entry: &str, inputs: Payloads) -> Starting<P> {
        Starting::new(self.clone(), entry, inputs)
    }
}

/// A process that is to be started, perhaps on another node: to be awaited, or waited for.
#[must_use = "nothing is started until it is awaited, or waited for"]
pub struct Starting<P> {
    node: RemoteNode,
    request: keyed_start::Request,
    process: std::marker::PhantomData<fn() -> P>,
}

impl<P: Remote + Addressed> Starting<P> {
    /// Waits until the process has been started. In a process, its worker goes on with others meanwhile.
    ///
    /// # Errors
    /// As [`RemoteNode::start`] says.
    pub fn wait(self) -> Result<Address<P>, StartError> {
        let (begun, node) = self.begin();
        let started = begun?.wait();
        started.map(Address::assume).map_err(|why| why.into_error(node))
    }
}

impl<P: Remote + Addressed + 'static> IntoFuture for Starting<P> {
    type Output = Result<Address<P>, StartError>;
    type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (begun, node) = self.begin();
            let started = begun?.await;
            started.map(Address::assume).map_err(|why| why.into_error(node))
        })
    }
}
