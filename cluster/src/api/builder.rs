//! Configuration of a node before it joins, and construction of its parts.

use super::{Cluster, NodeShared};
use crate::clock::SystemClock;
use crate::codec::{Codecs, CodecsBuilder, ExportError};
use crate::engine::{Attempt, Connect, Engine, SubscribeError};
use crate::lease::{Timing, TimingError};
use crate::membership::{self, Record, RecordError};
use crate::node::delivery::{Arrivals, Delivery, DeliverySetup, NodeCounters};
use crate::node::directory::{Directory, Parts};
use crate::node::driver::{Driver, DriverSetup};
use crate::node::inbox::{Check, Inbox, Input};
use crate::node::keys::StartKeys;
use crate::node::peer::{Gate, SharedClock};
use crate::node::policy::{Allow, Policy};
use crate::node::porter::{OnEnd, Porter};
use crate::node::view::View;
use crate::reply::{Completer, Pending, pair};
use crate::session::Config;
use crate::subject::is_subject;
use crate::threads::{self, users_code};
use postroom::remote::Remote;
use postroom::routing::Node;
use postroom::{Host, Pid};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The default time limit of [`Builder::join`]: long enough for one change of the store's leader and one lease time.
const JOIN_TIME: Duration = Duration::from_secs(30);

/// The default limit of [`Builder::max_nodes`]: each node has a session with every other node.
const MAX_NODES: usize = 1_024;

/// The default limit of [`Builder::max_bonds`]: links and monitors with one other node, about 100 MB.
const MAX_BONDS: usize = 1_000_000;

/// Time after which a node that is not a member yet logs what it is waiting for.
const LOG_AFTER: Duration = Duration::from_secs(1);

/// The configuration of a node that joins a cluster, created by [`Cluster::builder`].
#[must_use = "call `join`"]
pub struct Builder {
    cluster: String,
    node: Option<String>,
    codecs: CodecsBuilder,
    exports: BTreeMap<&'static str, Box<dyn FnOnce(Host) + Send>>,
    timing: Timing,
    session: Config,
    max_nodes: usize,
    max_bonds: usize,
    join_time: Duration,
    pub(super) allow: Option<Arc<Allow>>,
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
    /// The node's name is not valid.
    #[error(transparent)]
    NodeName(#[from] RecordError),
    /// A type cannot be exported.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The timing of the lease is not safe.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// The engine could not be created.
    #[error("{0}")]
    Engine(String),
    /// The window of a session is too small.
    #[error("a window of the sessions has no room for a parcel; make it 64 KiB and 64 bytes at least")]
    Window,
    /// The engine refused a subscription.
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
    /// The runtime is being shut down.
    #[error("the runtime is being shut down; join while it runs")]
    Runtime,
    /// The store refused this node.
    #[error(transparent)]
    Membership(#[from] membership::JoinRefusal),
    /// The broker rejects this node, and waiting does not help.
    #[error("{problem}")]
    Broker {
        /// The problem that the engine reports, and what to do about it.
        problem: String,
    },
    /// The node did not become a member in time.
    #[error("no member after {waited:?}: {}", why_none(attempts))]
    Timeout {
        /// How long the node waited.
        waited: Duration,
        /// The servers that were tried, and the problem with each; empty if the engine reports none.
        attempts: Vec<Attempt>,
    },
    /// The operating system did not provide a thread.
    #[error("the system gives no thread: {0}")]
    Thread(String),
}

impl Cluster {
    /// Returns a builder for a node of the cluster with this name.
    pub fn builder(cluster: impl Into<String>) -> Builder {
        Builder {
            cluster: cluster.into(),
            node: None,
            codecs: Codecs::builder(),
            exports: BTreeMap::new(),
            timing: Timing::default(),
            session: Config::default(),
            max_nodes: MAX_NODES,
            max_bonds: MAX_BONDS,
            join_time: JOIN_TIME,
            allow: None,
        }
    }

    fn obstacle(&self) -> Option<String> {
        self.shared.engine.upgrade()?.obstacle()
    }

    fn attempts(&self) -> Vec<Attempt> {
        self.shared.engine.upgrade().map_or_else(Vec::new, |engine| engine.attempts())
    }
}

impl Builder {
    /// Sets this node's name, such as `eu-1`. Names are for people and for placement. Without a name, the node is named
    /// after its ID. A broker with permissions binds the name to the node's key, which makes it the node's identity.
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = Some(name.into());
        self
    }

    /// Lets other nodes start processes of this type and send messages to them. **Only exported types can be reached.**
    /// Nodes that only send to such processes must export the type too, to know its messages. A process that another
    /// node starts is initialized with `P::default()`.
    pub fn export<P: Remote + postroom::generic::Migratable + Default>(mut self) -> Self {
        self.codecs = self.codecs.export::<P>();
        self.exports.insert(P::NAME, Box::new(|host| host.register_type::<P>()));
        self
    }

    /// Sets the timing of the lease. It must be the same on all nodes of a cluster.
    pub fn lease(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Sets the limits of sessions. They must be the same on all nodes of a cluster.
    pub fn sessions(mut self, config: Config) -> Self {
        self.session = config;
        self
    }

    /// Sets the maximum number of nodes in the cluster, including this one; the default is 1,024. A node that finds the
    /// cluster full is refused. The limit must be the same on all nodes of a cluster.
    pub fn max_nodes(mut self, nodes: usize) -> Self {
        self.max_nodes = nodes;
        self
    }

    /// Sets the maximum number of links, monitors and joins between processes of this node and those of one other node;
    /// the default is a million. If the other node exceeds it, the session with that node ends, and all of these links
    /// and monitors report a loss. [`Statistics::floods`](crate::Statistics::floods) counts such sessions. The limit
    /// must be the same on all nodes of a cluster.
    pub fn max_bonds(mut self, bonds: usize) -> Self {
        self.max_bonds = bonds;
        self
    }

    /// Sets how long [`join`](Self::join) waits; the default is 30 seconds.
    pub fn join_within(mut self, time: Duration) -> Self {
        self.join_time = time;
        self
    }

    /// Joins a cluster through `engine`, which is an engine or `Nats::at(…)`, and waits until this node is a member.
    /// The processes of `host`, a runtime, become reachable. A node uses two threads.
    ///
    /// # Errors
    /// A [`JoinError`], whose text says what to do.
    pub fn join(self, host: &Host, engine: impl Connect) -> Result<Cluster, JoinError> {
        self.join_async(host, engine).wait()
    }

    /// Like [`join`](Self::join), but returns a result to await instead of blocking the thread. The node joins even if
    /// the result is dropped; in that case it leaves as soon as it has joined.
    ///
    /// In a [simulated test](mod@postroom::test) the node uses no threads: its parts are processes of `host`, and the
    /// simulation supplies its time and its randomness.
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
        await_membership(cluster, waited, then);
        pending
    }

    /// Starts to join, without waiting for membership.
    pub(crate) fn begin(self, host: &Host, engine: impl Connect) -> Result<Cluster, JoinError> {
        let node = self.node.clone().unwrap_or_else(|| host.node().to_string());
        Record::new(node.clone(), 0)?;
        let engine = engine.connect(&self.cluster, &node).map_err(|error| JoinError::Engine(error.to_string()))?;
        let engine = Arc::new(engine);
        #[cfg(any(test, feature = "test"))]
        if let Some(sim) = postroom::test::Sim::current() {
            return self.begin_simulated(&sim, *host, engine).map(|begun| begun.cluster);
        }
        let (cluster, driver, delivery) = self.prepare(*host, engine, Arc::new(|| SystemClock.now()))?;
        let spawn = |name: &'static str, run: Box<dyn FnOnce() + Send>| {
            let thread = threads::spawn(name, run);
            thread.map(drop).map_err(|error| JoinError::Thread(error.to_string()))
        };
        spawn("postroom-deliver", Box::new(move || delivery.run_to_end()))?;
        spawn("postroom-cluster", Box::new(move || driver.run_to_end()))?;
        Ok(cluster)
    }

    /// Checks the options that can be checked without a runtime.
    fn check(&self) -> Result<(), JoinError> {
        let is_name = self.cluster.len() <= 64 && is_subject(&self.cluster) && !self.cluster.contains('.');
        if !is_name {
            return Err(JoinError::ClusterName { name: self.cluster.clone() });
        }
        self.timing.check()?;
        if !self.session.data.have_room() || !self.session.control.have_room() {
            return Err(JoinError::Window);
        }
        Ok(())
    }

    /// Builds the parts of a node without starting threads.
    pub(crate) fn prepare(
        self,
        host: Host,
        engine: Arc<dyn Engine>,
        clock: SharedClock,
    ) -> Result<(Cluster, Driver, Delivery), JoinError> {
        self.check()?;
        let codecs = self.codecs.build()?;
        let id = host.node();
        let node = Node::of(id).ok_or(JoinError::Runtime)?;
        let name = self.node.unwrap_or_else(|| id.to_string());
        Record::new(name.clone(), 0)?;
        let exports: BTreeSet<_> = self.exports.keys().copied().collect();
        self.exports.into_values().for_each(|register| register(host));
        let (inbox, arrivals, view) = (Arc::<Inbox>::default(), Arc::<Arrivals>::default(), Arc::<View>::default());
        let counters = Arc::<NodeCounters>::default();
        let keys = Arc::new(StartKeys::new(Arc::clone(&clock), Arc::clone(&counters)));
        let ended = Arc::clone(&inbox);
        // Once the delivery exists, stopping these processes is its task.
        let mut begun = StopOnDrop(Vec::new());
        let mut porter = |on_end: OnEnd| {
            let porter = Porter::begin(host, on_end).ok_or(JoinError::Runtime)?;
            begun.0.push(porter.pid());
            Ok::<_, JoinError>(porter)
        };
        let porters = [porter(Box::new(|_, _| {}))?, porter(Box::new(move |pid, _| ended.push(Input::Ended(pid))))?];
        let allow = self.allow.map(|allow| porter(Box::new(|_, _| {})).map(|judge| (allow, judge))).transpose()?;
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
            longest: self.session.data.message,
        };
        let directory = Directory::begin(parts).ok_or(JoinError::Runtime)?;
        let delivery = Delivery::new(DeliverySetup {
            node,
            host,
            porters,
            arrivals: Arc::clone(&arrivals),
            counters: Arc::clone(&counters),
            policy,
            view: Arc::clone(&view),
            keys: Arc::clone(&keys),
            directory: Arc::clone(&directory),
            max_bonds: self.max_bonds,
        });
        begun.0.clear();
        let setup = DriverSetup {
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
            arrivals,
            counters: Arc::clone(&counters),
            view: Arc::clone(&view),
            porter: porters[1],
            directory: Arc::clone(&directory),
            draw: Box::new(draw),
        };
        let driver = Driver::new(setup)?;
        let (turn, pointers) = Default::default();
        let engine = weak;
        let shared =
            NodeShared { id, name, host, inbox, view, engine, counters, turn, exports, keys, pointers, directory };
        Ok((Cluster { shared: Arc::new(shared) }, driver, delivery))
    }
}

/// Describes why a node is not a member, as far as the attempts tell.
fn why_none(attempts: &[Attempt]) -> String {
    if attempts.is_empty() {
        return "the broker has not answered yet; wait longer, or check what its log says of this node".into();
    }
    // The text of each attempt says what to do, and names the server if a different one is needed.
    let each = attempts.iter().map(|Attempt { server, problem }| format!("tried `{server}`: {problem}"));
    each.collect::<Vec<_>>().join("; ")
}

/// Completes `then` once `cluster` is a member, can no longer become one, or has not become one within `waited`. This
/// also works if the driver has already ended.
fn await_membership(cluster: Cluster, waited: Duration, then: Completer<Result<Cluster, JoinError>>) {
    let (inbox, view) = (Arc::clone(&cluster.shared.inbox), Arc::clone(&cluster.shared.view));
    let log = log_if_late(&cluster);
    let mut waiting = Some((then, cluster));
    let check = move |is_late: bool| {
        let view = view.lock();
        let refused = match (&view.is_over, view.is_member) {
            (Some(Some(error)), _) => Some(error.clone().into()),
            (Some(None), _) => Some(JoinError::Runtime),
            (None, true) => None,
            (None, false) => match waiting.as_ref().and_then(|(_, cluster)| cluster.obstacle()) {
                Some(problem) => Some(JoinError::Broker { problem }),
                None if is_late => {
                    let attempts = waiting.as_ref().map(|(_, cluster)| cluster.attempts()).unwrap_or_default();
                    Some(JoinError::Timeout { waited, attempts })
                }
                None => return None,
            },
        };
        drop(view);
        let (then, cluster) = waiting.take()?;
        let joined = refused.map_or(Ok(cluster), Err);
        Some(Box::new(move || then.complete(joined)) as Box<dyn FnOnce() + Send>)
    };
    inbox.push(Input::Wait { time: waited, check: Box::new(check) });
    inbox.push(Input::Wait { time: LOG_AFTER.min(waited), check: log });
}

/// Returns a check that logs what the node is waiting for if it does not become a member soon. The node may be dropped
/// before the check runs.
fn log_if_late(cluster: &Cluster) -> Check {
    let (view, engine) = (Arc::clone(&cluster.shared.view), cluster.shared.engine.clone());
    let mut names = Some((cluster.shared.directory.cluster.clone(), cluster.shared.name.clone()));
    Box::new(move |is_late| {
        let state = view.lock();
        let is_decided = state.is_member || state.is_over.is_some();
        drop(state);
        if !is_late && !is_decided {
            return None;
        }
        let names = names.take().filter(|_| !is_decided);
        let engine = engine.clone();
        Some(Box::new(move || {
            // This may run on a user's thread. If there is nothing to log, that thread must not become the engine's
            // last owner.
            let Some((cluster, node)) = names else { return };
            let Some(engine) = engine.upgrade() else { return };
            let attempts = engine.attempts();
            let servers = attempts.iter().map(|attempt| &*attempt.server).collect::<Vec<_>>().join(", ");
            // An engine without servers has no names to report.
            let servers = Some(servers).filter(|servers| !servers.is_empty());
            let reason = why_none(&attempts);
            drop(engine);
            // A log subscriber is user code.
            users_code(move || {
                tracing::warn!(
                    target: "postroom", cluster, node, servers, reason,
                    "the node is not a member of its cluster yet; it keeps trying"
                );
            });
        }))
    })
}

/// Processes of a node under construction, stopped if the construction fails.
struct StopOnDrop(Vec<Pid>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.iter().for_each(|pid| _ = pid.stop());
    }
}

/// Draws a random number: std's hasher is seeded by the operating system.
fn draw() -> u64 {
    #[cfg(any(test, feature = "test"))]
    if let Some(sim) = postroom::test::Sim::current() {
        return sim.random();
    }
    static COUNT: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one(COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Broker;
    use crate::store::StoreError;
    use postroom::Runtime;

    /// Catches: a join that reports a shut-down runtime instead of the refusal, because its thread was preempted until
    /// the node had ended.
    #[test]
    fn a_join_learns_why_it_was_refused_though_its_node_has_ended() {
        let broker = Broker::new();
        let _running = broker.run();
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let client = broker.connect_as("other", "eu-9");
        let cluster = Cluster::builder("bank").node("eu-1").begin(&runtime, client).unwrap();
        let has_ended = (0..60_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            cluster.shared.inbox.is_closed()
        });
        assert!(has_ended);
        let (pending, then) = pair(Err(JoinError::Runtime));
        await_membership(cluster, Duration::from_secs(60), then);
        let error = pending.wait().unwrap_err();
        let is_it =
            matches!(&error, JoinError::Membership(membership::JoinRefusal::Store(StoreError::Forbidden { .. })));
        assert!(is_it, "{error:?}");
    }
}
