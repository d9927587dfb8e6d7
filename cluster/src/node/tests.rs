//! Whole nodes in one program: three runtimes, each a node of its own, over the broker in memory. A thread moves
//! their frames and advances their time, which is independent of the machine's.

mod abandonment;
mod asks;
mod blocked;
mod bounds;
mod children;
mod coding;
mod directory;
mod hostile;
mod outages;
mod pressure;
mod repeated_starts;
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

/// A process that records the ends of other processes that it is notified of.
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

/// The amount by which the nodes' time advances at once.
const STEP: Duration = Duration::from_millis(5);

/// The state that the thread advances.
struct World {
    broker: Broker,
    /// The nodes' time, in milliseconds.
    clock: Arc<AtomicU64>,
    now: Moment,
    /// Whether the nodes' time stands still, for a test that has much to do before one of their limits is over.
    is_still: bool,
    machines: Vec<Machine>,
    hosts: Vec<Host>,
}

impl World {
    /// Makes all nodes do what they can.
    fn step(&mut self) {
        // The nodes' time does not advance while a process has something to do: however slow the machine is, the
        // process has done that before a limit of the nodes is over. Code that blocks its thread is not waited for.
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

/// A node, from the view of its program.
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
        // Replaces the threads of all nodes, so no user code may run on it.
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

#[test]
fn a_process_is_started_sent_to_and_called_on_another_node() {
    let (_nodes, [one, two, _three]) = three();
    let account = start(&one, "eu-2", 100);
    assert_eq!(account.pid().node(), two.cluster.id());
    let answers = on(&one, move || {
        (0..100).for_each(|_| account.deposit(1).send().unwrap());
        let text = |error: CallError<String>| error.to_string();
        (
            account.deposit(5).wait(),
            account.withdraw(1_000).wait().map_err(text),
            account.withdraw(5).wait().map_err(text),
        )
    });
    assert_eq!(answers, (Ok(205), Err("only 205 there".into()), Ok(200)));
}

#[test]
fn what_cannot_travel_is_refused_with_its_reason() {
    let (_nodes, [one, _two, _three]) = three();
    let account = start(&one, "eu-2", 100);
    let (sent, called) = on(&one, move || (account.audit().send(), account.audit().wait()));
    assert_eq!(sent.unwrap_err().reason, SendFailure::NotRemote(account.pid()));
    assert_eq!(called, Err(CallError::NotRemote));
    let unknown = one.cluster.node("eu-9").unwrap_err();
    let members = vec!["eu-2".to_owned(), "eu-3".to_owned()];
    let NodeError::Unknown { name, members: mut listed } = unknown else { panic!("{unknown}") };
    listed.sort();
    assert_eq!((name.as_str(), listed), ("eu-9", members));
    let node = one.cluster.node("eu-2").unwrap();
    let error = node.start::<Account>("sevre", payloads![]).wait().unwrap_err();
    let has = vec!["open".to_owned(), "serve".to_owned()];
    let expected = postroom::error::EntryError::Unknown { process: "Account".into(), entry: "sevre".into(), has };
    assert_eq!(error, StartError::Inputs(expected.into()));
    let expected = "`Account` has no entry `sevre`; it has `open`, `serve`; did you mean `serve`?";
    assert_eq!(error.to_string(), expected);
    let error = node.start::<Account>("serve", payloads!["much".to_owned()]).wait().unwrap_err();
    assert!(matches!(error, StartError::Inputs(_)), "{error}");
}

#[test]
fn the_end_of_a_process_is_heard_on_another_node() {
    let (_nodes, [one, _two, _three]) = three();
    let observer = one.runtime.spawn(Observer::default()).serve().unwrap();
    let (stopped, failed) = (start(&one, "eu-2", 1), start(&one, "eu-2", 1));
    for account in [stopped, failed] {
        observer.watch(account.pid()).wait().unwrap();
        observer.tie(account.pid()).wait().unwrap();
    }
    on(&one, move || {
        assert_eq!(stopped.deposit(1).wait(), Ok(2));
        assert!(stopped.pid().stop());
        let died = failed.fail().wait();
        assert!(matches!(&died, Err(CallError::Died(ExitReason::Panic(panic))) if panic.message == "out of money"));
    });
    until("both ends are heard", || observer.heard().wait().unwrap().len() == 3);
    let mut heard = observer.heard().wait().unwrap();
    heard.sort();
    assert_eq!(heard[0], "down: normal");
    assert!(heard[1].starts_with("down: panic: out of money at"), "{heard:?}");
    assert!(heard[2].starts_with("exit: panic: out of money at"), "{heard:?}");
    // A process that had ended before.
    observer.watch(stopped.pid()).wait().unwrap();
    until("it is told", || observer.heard().wait().unwrap().len() == 4);
    assert_eq!(observer.heard().wait().unwrap()[3], "down: it had ended before");
}

#[test]
fn a_node_that_is_cut_off_is_lost_once_and_comes_back_with_its_processes() {
    let (nodes, [one, two, three]) = three();
    let observer = one.runtime.spawn(Observer::default()).serve().unwrap();
    let [account, tied] = [start(&one, "eu-2", 100), start(&one, "eu-2", 100)];
    observer.watch(account.pid()).wait().unwrap();
    observer.tie(tied.pid()).wait().unwrap();
    assert_eq!(on(&one, move || account.deposit(1).wait()), Ok(101));
    two.client.disconnect();
    until("the loss is heard", || observer.heard().wait().unwrap().len() == 2);
    let mut heard = observer.heard().wait().unwrap();
    heard.sort();
    assert_eq!(heard, ["down: its node was lost", "exit: its node was lost"]);
    let refused = on(&one, move || account.deposit(1).send()).unwrap_err();
    assert_eq!(refused.reason, SendFailure::UnknownNode(account.pid()));
    until("it knows that it is cut off", || !two.cluster.is_member());
    assert_eq!(account.deposit(1).wait(), Ok(102), "its processes go on");
    until("but for one that was tied to a lost one", || !tied.pid().is_alive());

    two.client.reconnect();
    for node in [&one, &two, &three] {
        assert!(node.cluster.wait_for_members(2, Duration::from_secs(60)));
    }
    until("it is a member again", || two.cluster.is_member());
    assert_eq!(on(&one, move || account.deposit(1).wait()), Ok(103));
    nodes.pass(Duration::from_secs(20));
    assert_eq!(observer.heard().wait().unwrap().len(), 2, "once");
}

/// A registration that was requested while the node was paused beyond its lease is not performed when the node
/// continues: the store may still have that lease.
#[test]
fn a_node_without_its_lease_registers_nothing() {
    let (nodes, [one, two, _three]) = three();
    let [account, other] = [start(&one, "eu-2", 1), start(&two, "eu-1", 2)];
    let (sender, changes) = std::sync::mpsc::channel();
    let on_change = Box::new(move |change| drop(sender.send(change)));
    let _watch = nodes.broker.connect().watch(engine::Bucket::Names, None, on_change).unwrap();
    let paused = nodes.lock().machines[1].driver.take();
    let registered = two.cluster.register("acct-7", account);
    let timing = crate::lease::Timing::default();
    nodes.pass(timing.fence + (timing.ttl - timing.fence) / 2);
    nodes.lock().machines[1].driver = paused;
    assert_eq!(registered.wait(), Err(RegisterError::NotAMember));
    one.cluster.register("acct-8", other).wait().unwrap();
    loop {
        let change = changes.recv_timeout(Duration::from_secs(60)).expect("a change");
        if let engine::Change::Put(entry) = change {
            assert_eq!(entry.key, crate::names::key("acct-8"));
            break;
        }
    }
}

#[test]
fn a_name_has_one_holder_and_passes_on_when_the_lease_is_over() {
    let (_nodes, [one, two, _three]) = three();
    let [first, second] = [start(&two, "eu-1", 1), start(&one, "eu-2", 2)];
    let token = two.cluster.register("acct-7", second).wait().unwrap();
    let taken = one.cluster.register("acct-7", first).wait();
    assert_eq!(taken, Err(RegisterError::Taken { name: "acct-7".into(), holder: second.pid() }));
    let elsewhere = one.cluster.register("acct-8", second).wait();
    assert_eq!(elsewhere, Err(RegisterError::Elsewhere { pid: second.pid() }));
    until("the name is known", || one.cluster.holder("acct-7") == Some((second.pid(), token)));
    let named = one.cluster.named::<Account>("acct-7").unwrap();
    assert_eq!(on(&one, move || named.deposit(1).wait()), Ok(3));

    // The holder ends before another process can have the name.
    two.client.disconnect();
    until("the name is free", || one.cluster.holder("acct-7").is_none());
    assert!(!second.pid().is_alive(), "the holder has ended");
    let next = one.cluster.register("acct-7", first).wait().unwrap();
    assert!(next > token);
    assert!(!one.cluster.release("acct-7", second).wait());
    assert!(one.cluster.release("acct-7", first).wait());
    until("it is free", || one.cluster.holder("acct-7").is_none());
}

#[test]
fn a_name_is_free_when_its_process_has_ended_or_its_node_has_left() {
    let (_nodes, [one, two, _three]) = three();
    let [first, second] = [start(&one, "eu-2", 1), start(&one, "eu-2", 2)];
    two.cluster.register("a", first).wait().unwrap();
    two.cluster.register("b", second).wait().unwrap();
    until("both are known", || one.cluster.holder("a").is_some() && one.cluster.holder("b").is_some());
    assert!(first.pid().stop());
    until("the first is free", || one.cluster.holder("a").is_none());
    let ended = two.cluster.register("a", first).wait();
    assert_eq!(ended, Err(RegisterError::Ended { pid: first.pid() }));
    two.cluster.leave().wait();
    until("the second is free", || one.cluster.holder("b").is_none());
    until("it is no member", || one.cluster.members().len() == 1);
    assert_eq!(two.cluster.register("c", second).wait(), Err(RegisterError::NotAMember));
}

#[test]
fn a_node_whose_runtime_is_shut_down_leaves() {
    let (_nodes, [one, two, _three]) = three();
    let account = start(&one, "eu-2", 1);
    let Node { cluster, runtime, .. } = two;
    cluster.register("acct-7", account).wait().unwrap();
    runtime.shutdown().unwrap();
    until("it has left", || one.cluster.members().iter().all(|member| member.id != cluster.id()));
    until("its name is free", || one.cluster.holder("acct-7").is_none());
    let refused = cluster.register("acct-8", account).wait();
    assert!(matches!(refused, Err(RegisterError::NotAMember | RegisterError::Ended { .. })), "{refused:?}");
}

/// In the nodes' time: the neighbours twice find that the broker has no subscriber, a second apart.
#[test]
fn a_node_whose_connection_is_closed_is_lost_within_one_and_a_half_seconds() {
    let (nodes, [one, two, three]) = three();
    let mut world = nodes.lock();
    two.client.close();
    let closed_at = world.now;
    let has_lost = |node: &Node| node.cluster.members().iter().all(|member| member.id != two.cluster.id());
    while !has_lost(&one) || !has_lost(&three) {
        world.step();
        assert!(world.now.since(closed_at) <= Duration::from_millis(1_500), "{:?}", one.cluster.members());
    }
    assert!(world.now.since(closed_at) > Duration::from_secs(1), "not without a grace");
}

/// A process that does not end when it is cancelled.
#[process]
#[derive(Default)]
struct Stubborn;

#[process]
impl Stubborn {
    #[entry]
    fn serve(&mut self) {}

    #[signal]
    fn cancel(&mut self, _cancel: Cancel) {}
}

#[test]
fn a_node_that_leaves_ends_the_holders_of_its_names_before_others_get_them() {
    let (_nodes, [one, two, _three]) = three();
    let stubborn = two.runtime.spawn(Stubborn).serve().unwrap();
    two.cluster.register("acct-7", stubborn).wait().unwrap();
    until("the name is known", || one.cluster.holder("acct-7").is_some());
    let next = start(&two, "eu-1", 0);
    let left = two.cluster.leave();
    until("the name is free", || match one.cluster.register("acct-7", next).wait() {
        Ok(_) => true,
        Err(RegisterError::Taken { .. } | RegisterError::HolderLost { .. }) => false,
        Err(error) => panic!("{error}"),
    });
    assert!(!stubborn.pid().is_alive(), "its first holder has ended");
    left.wait();
}

/// No other node exists that could free its names.
#[test]
fn a_node_alone_that_was_cut_off_gets_its_names_again() {
    let nodes = Nodes::new();
    let one = nodes.join("eu-1");
    until("it is a member", || one.cluster.is_member());
    let account = one.runtime.spawn(Account::default()).serve(1).unwrap();
    let token = one.cluster.register("acct-7", account).wait().unwrap();
    one.client.disconnect();
    until("it has fenced itself", || !one.cluster.is_member());
    until("its holder has ended", || !account.pid().is_alive());
    one.client.reconnect();
    until("it is a member again", || one.cluster.is_member());
    let account = one.runtime.spawn(Account::default()).serve(1).unwrap();
    until("the name is free", || match one.cluster.register("acct-7", account).wait() {
        Ok(next) => next > token,
        Err(RegisterError::Taken { .. } | RegisterError::HolderLost { .. } | RegisterError::NotAMember) => false,
        Err(error) => panic!("{error}"),
    });
}

#[test]
fn settings_that_are_not_safe_are_refused() {
    let runtime = Runtime::builder().workers(1).logical_node(NodeId::random()).build().unwrap();
    let broker = Broker::new();
    let join = |builder: crate::Builder| builder.join(&runtime, broker.connect()).unwrap_err();
    let mut config = crate::session::Config::default();
    config.data.window = 1_000;
    assert_eq!(join(Cluster::builder("bank").sessions(config)), crate::JoinError::Window);
    let ttl = Duration::from_secs(60);
    let timing = crate::lease::Timing { ttl, fence: Duration::from_secs(50), ..Default::default() };
    let expected = crate::lease::TimingError::TtlTooLong { ttl };
    assert_eq!(join(Cluster::builder("bank").lease(timing)), expected.into());
    let name = "a.b".to_owned();
    assert_eq!(join(Cluster::builder(name.clone())), crate::JoinError::ClusterName { name });
    assert!(matches!(join(Cluster::builder("bank").node("")), crate::JoinError::NodeName(_)));
    let waited = Duration::from_millis(10);
    let late = join(Cluster::builder("bank").join_within(waited));
    assert_eq!(late, crate::JoinError::Timeout { waited, attempts: Vec::new() }, "nothing moves the broker");
}

/// An engine that refuses watches of the store. All other calls go to the client.
struct Deaf(Client);

impl Engine for Deaf {
    fn publish(&self, lane: Lane, subject: &str, payload: Bytes) -> Result<(), engine::PublishError> {
        self.0.publish(lane, subject, payload)
    }

    fn subscribe(&self, lane: Lane, pattern: &str, then: engine::OnMessage) -> Subscribed {
        self.0.subscribe(lane, pattern, then)
    }

    fn probe(&self, subject: &str, then: engine::OnProbe) {
        self.0.probe(subject, then);
    }

    fn create(&self, bucket: engine::Bucket, key: &str, value: Bytes, then: engine::OnWrite) {
        self.0.create(bucket, key, value, then);
    }

    fn update(&self, bucket: engine::Bucket, key: &str, value: Bytes, old: engine::Revision, then: engine::OnWrite) {
        self.0.update(bucket, key, value, old, then);
    }

    fn delete(&self, bucket: engine::Bucket, key: &str, expected: engine::Revision, then: engine::OnWrite) {
        self.0.delete(bucket, key, expected, then);
    }

    fn get(&self, bucket: engine::Bucket, key: &str, then: engine::OnRead) {
        self.0.get(bucket, key, then);
    }

    fn watch(&self, _: engine::Bucket, _: Option<engine::Revision>, _: engine::OnChange) -> Subscribed {
        Err(engine::SubscribeError::Closed)
    }

    fn is_connected(&self) -> bool {
        self.0.is_connected()
    }
}

type Subscribed = Result<engine::Subscription, engine::SubscribeError>;

/// A join that fails halfway leaves no process behind, whichever part of the node could not be created.
///
/// Mutations: leave out `Drop` of `Delivery`, or that of the builder's `StopOnDrop`.
#[test]
fn a_join_that_fails_half_way_leaves_nothing_behind() {
    let broker = Broker::new();
    let builder = || Cluster::builder("bank").node("eu-1").allow(|_, _| true);
    let none_left = |runtime: &Runtime| until("none is left", || runtime.statistics().processes.live == 0);
    let runtime = || Runtime::builder().workers(1).logical_node(NodeId::random());

    let host = runtime().build().unwrap();
    let refused = builder().join(&host, Deaf(broker.connect())).unwrap_err();
    assert_eq!(refused, crate::JoinError::Subscribe(engine::SubscribeError::Closed));
    none_left(&host);

    // Simulates that no thread could be created for the delivery, or for the driver.
    for is_first in [true, false] {
        let host = runtime().build().unwrap();
        let clock = Arc::new(|| Moment::START);
        let engine = Arc::new(broker.connect());
        let (cluster, driver, mut delivery) = builder().prepare(*host, engine, clock).unwrap();
        assert!(host.statistics().processes.live > 0);
        if is_first {
            drop((delivery, driver, cluster));
        } else {
            drop((driver, cluster));
            while delivery.run() {}
        }
        none_left(&host);
    }

    // Each of a node's processes may be the one beyond the limit: two porters, one that asks the policy, one that
    // delivers for the directory, and those that start processes by key.
    for limit in 0..4 + crate::node::directory::STARTERS as usize {
        let host = runtime().process_limit(limit.max(1)).build().unwrap();
        let other = (limit == 0).then(|| host.spawn(Observer::default()).serve().unwrap());
        let refused = builder().join(&host, broker.connect()).unwrap_err();
        assert_eq!(refused, crate::JoinError::Runtime, "with {limit}");
        other.into_iter().for_each(|other| _ = other.pid().stop());
        none_left(&host);
    }
}

/// Messages sent before a node leaves arrive, and operations that wait for its answer fail.
#[test]
fn a_node_that_leaves_is_heard_of_behind_what_it_has_sent() {
    let (_nodes, [one, two, _three]) = three();
    let observer = one.runtime.spawn(Observer::default()).serve().unwrap();
    let (here, there) = (start(&two, "eu-1", 0), start(&one, "eu-2", 0));
    observer.watch(there.pid()).wait().unwrap();
    on(&two, move || (0..1_000).for_each(|_| here.deposit(1).send().unwrap()));
    two.cluster.leave().wait();
    until("the loss is heard", || observer.heard().wait().unwrap() == ["down: its node was lost"]);
    assert_eq!(here.deposit(0).wait(), Ok(1_000));
}

/// An address that follows a name leads to a process, and that process holds the second name. Its node can leave
/// nevertheless.
#[test]
fn a_name_is_held_by_a_process_and_not_by_an_address() {
    let nodes = Nodes::new();
    let [one, two] = ["eu-1", "eu-2"].map(|name| nodes.join(name));
    for node in [&one, &two] {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
        until("it is a member", || node.cluster.is_member());
    }
    let account = one.runtime.spawn(Account::default()).serve(0).unwrap();
    one.cluster.register("a", account).wait().unwrap();
    let named = one.cluster.named::<Account>("a").unwrap();
    one.cluster.register("b", named).wait().unwrap();
    until("it is known", || two.cluster.holder("b").is_some());
    assert_eq!(two.cluster.holder("b").unwrap().0, account.pid());
    one.cluster.leave().wait();
    until("both names are free", || ["a", "b"].iter().all(|name| two.cluster.holder(name).is_none()));
}

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

/// A full mailbox: messages wait in order, their senders are refused, and other processes on the node are served.
#[test]
fn one_slow_process_stops_no_other() {
    one_slow_process(Overflow::Refuse);
}

/// Senders on its own node would wait, but the thread that delivers for all must not.
#[test]
fn one_slow_process_at_which_senders_wait_stops_no_other() {
    one_slow_process(Overflow::Wait);
}

fn one_slow_process(overflow: Overflow) {
    let nodes = Nodes::new();
    let [one, two] = ["eu-1", "eu-2"].map(|name| nodes.join(name));
    for node in [&one, &two] {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
    }
    let slow = two.runtime.spawn(Slow::default()).mailbox(Bound::Hard(4, overflow)).serve().unwrap();
    let account = start(&one, "eu-2", 0);
    let gate = Arc::new(AtomicBool::new(false));
    slow.stand(Arc::clone(&gate)).send().unwrap();
    on(&one, || {
        // The sender is notified only after a thousand messages have found the mailbox full.
        let mut sent = 0;
        until("its sender is refused", || {
            (0..100).any(|_| match slow.take(sent).send() {
                Ok(()) => {
                    sent += 1;
                    false
                }
                Err(refused) => {
                    assert_eq!(refused.reason, SendFailure::Full(slow.pid()));
                    true
                }
            })
        });
        assert_eq!(account.deposit(1).wait(), Ok(1), "another is served");
        gate.store(true, Ordering::Relaxed);
        until("it takes messages again", || slow.take(sent).send().is_ok());
        until("all are taken", || slow.taken().wait() == Ok(sent + 1));
    });
    assert_eq!(losses(&two), crate::Statistics::default());
}
