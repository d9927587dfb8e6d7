//! Nodes of a simulation, and the faults that a test can inject into them.

use super::oracle;
use crate::api::{Builder, Cluster, SimulatedJoin};
use crate::frame::Epoch;
use crate::memory::Client;
#[cfg(test)]
use crate::memory::simulated::Part;
use crate::memory::simulated::{Side, SimulatedBroker, Traffic};
use crate::node::books::Books;
use crate::node::peer::Peer;
use crate::node::view::View;
use crate::store::Revision;
use postroom::prelude::*;
use postroom::routing::{Node, Router};
use std::ops::{Add, Deref};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The time limit of [`SimulatedBroker::settle`], in the simulation's time: several lease times.
const SETTLING: Duration = Duration::from_secs(180);

/// The interval at which [`SimulatedBroker::settle`] and [`SimulatedBroker::rest`] check.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A node of a simulated cluster, created by [`SimulatedBroker::join`]. It dereferences to its [`Cluster`]. The node
/// leaves when this value and all clones of its [`Cluster`] are dropped.
#[derive(Debug)]
pub struct SimulatedNode {
    cluster: Cluster,
    host: Host,
    client: Arc<Client>,
    broker: SimulatedBroker,
    view: ViewOf,
    has_panicked: Arc<AtomicBool>,
}

#[derive(Clone)]
struct ViewOf(Arc<View>);

/// A kind of fault that [`SimulatedBroker::trouble`] may cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble {
    /// A partition in both directions.
    Partition,
    /// A partition in one direction.
    PartitionOneWay,
    /// A pause of one node, for up to 25 seconds, which is longer than a lease.
    Pause,
}

impl Trouble {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Partition, Self::PartitionOneWay, Self::Pause];
}

impl std::fmt::Debug for ViewOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.lock().members.values()).finish()
    }
}

impl Deref for SimulatedNode {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Drop for SimulatedNode {
    fn drop(&mut self) {
        let has_panicked = self.has_panicked.load(Ordering::Relaxed) && !std::thread::panicking();
        assert!(!has_panicked, "a part of the node `{}` has panicked", self.name());
    }
}

impl SimulatedNode {
    /// Returns the number of turns of the node's driver, and how many times it has checked another node in these turns.
    #[cfg(test)]
    pub(crate) fn work(&self) -> [u64; 2] {
        self.view.0.work()
    }

    /// Returns the node's host, to spawn processes on.
    pub fn host(&self) -> Host {
        self.host
    }

    /// Runs `body` as code of this node: its messages to processes of other nodes go through the cluster. Outside such
    /// a call, a test reaches the processes of all nodes directly, as an observer.
    ///
    /// # Panics
    /// If the node was killed and forgotten.
    #[track_caller]
    pub fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        let Some(node) = Node::of(self.host.node()) else { panic!("node `{}` is no more", self.name()) };
        node.enter(body)
    }

    /// Returns counts of the node's publications, and of its requests to the store.
    pub fn traffic(&self) -> Traffic {
        self.broker.traffic(&self.client)
    }

    /// Returns the counts of this node's open operations with others.
    pub fn books(&self) -> Books {
        let peers: Vec<_> = self.view.0.lock().peers.values().cloned().collect();
        let router = Router::of_node(self.id());
        let of = |peer: &Arc<Peer>| Books { ties: router.ties(peer.node()), ..peer.books() };
        peers.iter().map(of).fold(Books::default(), Books::add)
    }

    /// Returns a function that identifies this node's current session with `other`. The function returns `None` if
    /// there is no session, and a different value for each session.
    pub fn session_with(&self, other: &Self) -> impl Fn() -> Option<(Epoch, Revision)> + Send + Sync + Clone + use<> {
        let (view, other) = (self.view.clone(), other.id());
        move || Some(view.0.lock().peers.get(&other)?.identity())
    }

    /// Returns whether this node considers `other` a member, even if users of the node do not see that member.
    #[cfg(test)]
    pub(super) fn knows(&self, other: postroom::NodeId) -> bool {
        self.view.0.lock().members.contains_key(&other)
    }

    /// Returns weak references to the broker, and to what this node has for it and for other nodes.
    #[cfg(test)]
    pub(super) fn parts(&self) -> Vec<Part> {
        let peers: Vec<Part> = self.view.0.lock().peers.values().map(|peer| Arc::downgrade(peer) as _).collect();
        let own: [Part; 2] = [Arc::downgrade(&self.client) as _, Arc::downgrade(&self.view.0) as _];
        self.broker.parts().into_iter().chain(own).chain(peers).collect()
    }

    /// Returns whether this node is a member and has sessions with all of `others`.
    fn sees(&self, others: &[&Self]) -> bool {
        let view = self.view.0.lock();
        let is_seen = |other: &&Self| view.members.get(&other.id()).is_some_and(|member| member.is_connected);
        view.is_member && others.iter().filter(|other| other.id() != self.id()).all(is_seen)
    }
}

impl SimulatedBroker {
    /// Joins with a new node. Does not wait until the node is a member: [`settle`](Self::settle) does that.
    ///
    /// # Panics
    /// If the builder returns an error.
    #[track_caller]
    pub fn join(&self, builder: Builder) -> SimulatedNode {
        let host = self.sim().node();
        let client = Arc::new(self.connect());
        let engine = Arc::clone(&client);
        oracle::install(self);
        match builder.begin_simulated(self.sim(), host, engine) {
            Ok(SimulatedJoin { cluster, view, has_panicked }) => {
                let (broker, view) = (self.clone(), ViewOf(view));
                SimulatedNode { cluster, host, client, broker, view, has_panicked }
            }
            Err(error) => panic!("the node cannot join the simulated cluster: {error}"),
        }
    }

    /// Lets time pass until these nodes are members, and have sessions with each other.
    ///
    /// # Panics
    /// If that has not happened after three minutes of the simulation's time.
    #[track_caller]
    pub fn settle(&self, nodes: &[&SimulatedNode]) {
        let begun = self.sim().elapsed();
        loop {
            self.check_all(nodes);
            let apart: Vec<_> = nodes.iter().filter(|node| !node.sees(nodes)).collect();
            if apart.is_empty() {
                return;
            }
            assert!(self.sim().elapsed() - begun < SETTLING, "these nodes do not see all others: {apart:?}");
            self.pass(LOOK_EVERY);
        }
    }

    /// Checks that no part of these nodes has panicked.
    #[track_caller]
    fn check_all(&self, nodes: &[&SimulatedNode]) {
        let has_panicked = |node: &&&SimulatedNode| node.has_panicked.load(Ordering::Relaxed);
        let panicked: Vec<_> = nodes.iter().filter(has_panicked).map(|node| node.name()).collect();
        assert!(panicked.is_empty(), "parts of these nodes have panicked: {panicked:?}");
        self.check();
    }

    /// Cuts nodes off from others in both directions. The store stays with the larger side, or with the first side if
    /// both are equal: nodes of the other side cannot reach the store, and fence themselves. Nodes of one side still
    /// reach each other, and nodes on neither side reach both sides.
    pub fn partition(&self, one: &[&SimulatedNode], other: &[&SimulatedNode]) {
        let (first, second) = if one.len() >= other.len() { (one, other) } else { (other, one) };
        self.cut(&clients(first), &clients(second), Side::From);
        self.cut(&clients(second), &clients(first), Side::To);
    }

    /// Cuts the direction from some nodes to others. The store is on the larger side, or on the first side if both are
    /// equal. So nodes of the other side cannot send requests to the store, or do not receive its answers.
    pub fn partition_one_way(&self, from: &[&SimulatedNode], to: &[&SimulatedNode]) {
        let side = if from.len() >= to.len() { Side::From } else { Side::To };
        self.cut(&clients(from), &clients(to), side);
    }

    /// Causes one random fault of these kinds among these nodes. In a third of the cases, and when a failing schedule
    /// is minimized, it causes none. Returns the kind.
    pub fn trouble(&self, nodes: &[&SimulatedNode], kinds: &[Trouble]) -> Option<Trouble> {
        let sim = self.sim();
        if nodes.len() < 2 || kinds.is_empty() || !sim.chance(2.0 / 3.0) {
            return None;
        }
        let below = |limit: usize| (sim.random() % limit as u64) as usize;
        let kind = kinds[below(kinds.len())];
        let mut nodes = nodes.to_vec();
        // A Fisher-Yates shuffle, so that all divisions are equally likely.
        (1..nodes.len()).rev().for_each(|last| nodes.swap(last, below(last + 1)));
        let (one, other) = nodes.split_at(1 + below(nodes.len() - 1));
        match kind {
            Trouble::Partition => self.partition(one, other),
            Trouble::PartitionOneWay => self.partition_one_way(one, other),
            Trouble::Pause => self.pause(nodes[0], Duration::from_millis(sim.random() % 25_000)),
        }
        Some(kind)
    }

    /// Lets time pass until the [books](Books) of these nodes are empty.
    ///
    /// # Panics
    /// If that has not happened after three minutes of the simulation's time.
    #[track_caller]
    pub fn rest(&self, nodes: &[&SimulatedNode]) {
        let begun = self.sim().elapsed();
        loop {
            self.check_all(nodes);
            let books: Vec<_> = nodes.iter().map(|node| (node.name(), node.books())).collect();
            if books.iter().all(|(_, books)| *books == Books::default()) {
                return;
            }
            assert!(self.sim().elapsed() - begun < SETTLING, "these nodes do not come to rest: {books:?}");
            self.pass(LOOK_EVERY);
        }
    }

    /// Lets time pass: like [`Sim::advance`](postroom::test::Sim::advance), but cheaper, since the test itself has no
    /// turn before the time is over. At that time, some processes may be in the middle of an operation.
    ///
    /// # Panics
    /// If a check of the broker fails.
    #[track_caller]
    pub fn pass(&self, time: Duration) {
        self.check();
        let sleeper = self.sim().spawn(Sleeper).sleep(time);
        let slept = sleeper.map(|running| running.wait());
        assert!(matches!(slept, Ok(Ok(()))), "time cannot pass: {slept:?}");
        self.check();
    }

    /// Ends all partitions. Messages that were sent across a partition in the meantime are lost.
    pub fn heal(&self) {
        self.heal_all();
    }

    /// Pauses a node for `time`, as a virtual machine is paused: its processes and the node's own parts stop, and
    /// messages to it wait.
    pub fn pause(&self, node: &SimulatedNode, time: Duration) {
        self.sim().pause(node.host, time);
        self.pause_client(node.client.number(), time);
    }

    /// Kills a node: all its processes end, and it sends no goodbye. To replace it, join again with a new node.
    pub fn kill(&self, node: &SimulatedNode) {
        self.check();
        node.client.close();
        self.sim().kill(node.host);
    }
}

/// A process that sleeps while time passes.
#[process]
struct Sleeper;

#[process]
impl Sleeper {
    #[entry]
    async fn sleep(&mut self, ctx: &mut Context<Self>, time: Duration) {
        ctx.sleep(time).await;
    }
}

fn clients(nodes: &[&SimulatedNode]) -> Vec<usize> {
    nodes.iter().map(|node| node.client.number()).collect()
}
