//! Whole nodes in one program: three runtimes, each a node of its own, over the broker in memory. A thread moves their
//! frames and advances their time, which is independent of the machine's time.

mod abandonment;
mod asks;
mod blocked;
mod bounds;
mod children;
mod coding;
mod directory;
mod hostile;
mod members;
mod names;
mod outages;
mod pressure;
mod processes;
mod repeated_starts;
mod slow;
mod users_code;

use super::delivery::Delivery;
use super::driver::Driver;
use crate::clock::Moment;
use crate::engine::{self, Engine, Lane};
use crate::memory::{Broker, Client};
use crate::names::RegisterError;
use crate::{Cluster, NodeError, StartError};
use bytes::Bytes;
use postroom::error::SendFailure;
use postroom::inspect::ThreadState;
use postroom::prelude::*;
use postroom::{NodeId, Runtime};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

#[process]
#[derive(Default)]
struct Account {
    balance: i64,
}

#[process(remote)]
impl Account {
    #[entry]
    fn serve(&mut self, opening: i64) {
        self.balance = opening;
    }

    #[entry]
    fn open(&mut self, opening: i64, owner: String) {
        (self.balance, _) = (opening, owner);
    }

    #[message]
    fn deposit(&mut self, amount: i64) -> i64 {
        self.balance += amount;
        self.balance
    }

    #[message]
    fn withdraw(&mut self, amount: i64) -> Result<i64, String> {
        if amount > self.balance {
            return Err(format!("only {} there", self.balance));
        }
        self.balance -= amount;
        Ok(self.balance)
    }

    #[message]
    fn fail(&mut self) {
        panic!("out of money");
    }

    #[message(local)]
    fn audit(&mut self) -> i64 {
        self.balance
    }
}

/// A process that records each end of another process of which it is notified.
#[process]
#[derive(Default)]
struct Observer {
    heard: Vec<String>,
}

#[process]
impl Observer {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn watch(&mut self, pid: Pid) {
        pid.monitor().unwrap();
    }

    #[message]
    fn tie(&mut self, pid: Pid) {
        pid.link().unwrap();
    }

    #[message]
    fn heard(&mut self) -> Vec<String> {
        self.heard.clone()
    }

    #[signal]
    fn down(&mut self, down: Down) {
        self.heard.push(format!("down: {}", down.reason));
    }

    #[signal]
    fn exit(&mut self, exit: Exit) {
        self.heard.push(format!("exit: {}", exit.reason));
    }
}

struct Machine {
    driver: Option<Driver>,
    delivery: Option<Delivery>,
}

/// A process that takes messages in order, and can be kept busy.
#[process]
#[derive(Default)]
struct Slow {
    taken: u64,
}

#[process(remote)]
impl Slow {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn take(&mut self, number: u64) {
        assert_eq!(number, self.taken, "in order, none lost");
        self.taken += 1;
    }

    #[message]
    fn taken(&mut self) -> u64 {
        self.taken
    }

    /// Keeps the process busy until the gate opens.
    #[message(local)]
    fn stand(&mut self, gate: Arc<AtomicBool>) {
        postroom::block_in_place(|| {
            while !gate.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(100));
            }
        });
    }
}

/// The step by which the nodes' time advances.
const STEP: Duration = Duration::from_millis(5);

/// The nodes and their broker, which the mover thread advances.
struct World {
    broker: Broker,
    /// The nodes' time, in milliseconds.
    clock: Arc<AtomicU64>,
    now: Moment,
    /// Whether the nodes' time stands still, for a test that has much to do before one of the nodes' time limits
    /// expires.
    is_still: bool,
    machines: Vec<Machine>,
    hosts: Vec<Host>,
}

impl World {
    /// Lets all nodes do whatever they can do now.
    fn step(&mut self) {
        // The nodes' time does not advance while a process has something to do: however slow the machine is, the
        // process is finished before a time limit of the nodes expires. Code that blocks its thread does not hold the
        // time back.
        self.hosts.retain(|host| postroom::routing::Node::of(host.node()).is_some());
        if !self.is_still && self.hosts.iter().all(|host| is_resting(*host)) {
            self.now = self.now + STEP;
            self.clock.fetch_add(STEP.as_millis() as u64, Ordering::Relaxed);
            self.broker.advance(STEP);
        }
        for _ in 0..4 {
            for machine in &mut self.machines {
                if machine.driver.as_mut().is_some_and(|driver| driver.run().is_none()) {
                    machine.driver = None;
                }
                if machine.delivery.as_mut().is_some_and(|delivery| !delivery.run()) {
                    machine.delivery = None;
                }
            }
            while self.broker.step() {}
        }
    }
}

fn is_resting(host: Host) -> bool {
    let statistics = host.statistics();
    let runs = statistics.threads.iter().any(|thread| thread.state == ThreadState::Running);
    let waits = statistics.workers.iter().map(|worker| worker.inject_queue + worker.queue).sum::<usize>();
    !runs && waits + statistics.global_queue == 0
}

/// A node, as its program sees it.
struct Node {
    cluster: Cluster,
    client: Arc<Client>,
    runtime: Runtime,
}

struct Nodes {
    world: Arc<Mutex<World>>,
    stop: Arc<AtomicBool>,
    mover: Option<JoinHandle<()>>,
    broker: Broker,
}

impl Nodes {
    fn new() -> Self {
        let broker = Broker::new();
        let world = World {
            broker: broker.clone(),
            clock: Arc::default(),
            now: Moment::START,
            is_still: false,
            machines: Vec::new(),
            hosts: Vec::new(),
        };
        let (world, stop) = (Arc::new(Mutex::new(world)), Arc::new(AtomicBool::new(false)));
        let (moves, stops) = (Arc::clone(&world), Arc::clone(&stop));
        // The mover replaces the threads of all nodes, so no user code may run on it.
        let mover = crate::threads::spawn("mover", move || {
            while !stops.load(Ordering::Relaxed) {
                moves.lock().unwrap().step();
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let mover = mover.unwrap();
        Self { world, stop, mover: Some(mover), broker }
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    fn join(&self, name: &str) -> Node {
        self.join_as(name, |builder| builder)
    }

    fn join_as(&self, name: &str, with: impl FnOnce(crate::Builder) -> crate::Builder) -> Node {
        self.join_on(Runtime::builder(), name, with)
    }

    fn join_on(
        &self,
        runtime: postroom::Builder,
        name: &str,
        with: impl FnOnce(crate::Builder) -> crate::Builder,
    ) -> Node {
        let runtime = runtime.workers(1).call_timeout(Duration::MAX).logical_node(NodeId::random());
        let runtime = runtime.build().unwrap();
        let client = Arc::new(self.broker.connect_as("bank", name));
        let builder = Cluster::builder("bank").node(name).export::<Account>().export::<Slow>();
        let builder = with(builder.export::<hostile::Keeper>());
        let clock = Arc::clone(&self.lock().clock);
        let clock = Arc::new(move || Moment::after_start(Duration::from_millis(clock.load(Ordering::Relaxed))));
        let (cluster, driver, delivery) = builder.prepare(*runtime, client.clone(), clock).unwrap();
        self.lock().hosts.push(*runtime);
        self.lock().machines.push(Machine { driver: Some(driver), delivery: Some(delivery) });
        Node { cluster, client, runtime }
    }

    /// Lets this much time pass for the nodes.
    fn pass(&self, time: Duration) {
        let until = self.lock().now + time;
        while self.lock().now < until {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.mover.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// Returns three nodes that know each other.
fn three() -> (Nodes, [Node; 3]) {
    let nodes = Nodes::new();
    let three = ["eu-1", "eu-2", "eu-3"].map(|name| nodes.join(name));
    for node in &three {
        assert!(node.cluster.wait_for_members(2, Duration::from_secs(60)), "{:?}", node.cluster.members());
        until("it is a member", || node.cluster.is_member());
    }
    (nodes, three)
}

/// Returns a node's counts of lost, undelivered and invalid messages. Frames that arrive again because their
/// acknowledgement was slow are not among them.
fn losses(node: &Node) -> crate::Statistics {
    crate::Statistics { replayed_frames: 0, ..node.cluster.statistics() }
}

/// Waits until `holds` returns true. The limit only guards against a hang.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    // Long enough that a slow, busy machine is not mistaken for a hang.
    const LONGEST: Duration = Duration::from_secs(240);
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONGEST, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs `body` as code of a node.
fn on<T>(node: &Node, body: impl FnOnce() -> T) -> T {
    postroom::routing::Node::of(node.cluster.id()).unwrap().enter(body)
}

fn start(from: &Node, to: &str, opening: i64) -> Address<Account> {
    from.cluster.node(to).unwrap().start::<Account>("serve", payloads![opening]).wait().unwrap()
}
