//! Supervisors with children on other nodes, under all failures of either side. Each test counts the live children in a
//! log: in the end exactly one is left, which the supervisor knows, or none.

use super::*;
use crate::Builder;
use crate::envelope::Envelope;
use postroom::NodeId;
use postroom::supervision::{ChildInfo, ChildState, GaveUp};
use std::collections::BTreeMap;
use std::sync::PoisonError;

/// The events of the workers of one test.
#[derive(Default)]
struct Log {
    events: Vec<String>,
    alive: BTreeMap<String, i64>,
    /// Whether processes that were started with the entry `wait` may continue.
    is_open: bool,
}

static LOGS: Mutex<BTreeMap<u64, Log>> = Mutex::new(BTreeMap::new());

fn log<R>(number: u64, look: impl FnOnce(&mut Log) -> R) -> R {
    look(LOGS.lock().unwrap_or_else(PoisonError::into_inner).entry(number).or_default())
}

/// Returns the number of a new log.
fn new_log() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

fn lives(number: u64) -> i64 {
    log(number, |log| log.alive.values().sum())
}

fn events(number: u64) -> Vec<String> {
    log(number, |log| log.events.clone())
}

fn begins(number: u64, name: &str) {
    log(number, |log| {
        *log.alive.entry(name.to_owned()).or_default() += 1;
        log.events.push(format!("start {name}"));
    });
}

/// A process that traps exits, so a link alone does not end it.
#[process]
#[derive(Default)]
pub(super) struct Worker {
    log: u64,
    name: String,
    touched: u64,
}

#[process(remote)]
impl Worker {
    #[entry]
    fn serve(&mut self, log: u64, name: String) {
        begins(log, &name);
        (self.log, self.name) = (log, name);
    }

    /// Ends at once.
    #[entry]
    async fn work(&mut self, log: u64, name: String) {
        begins(log, &name);
        (self.log, self.name) = (log, name);
    }

    #[entry]
    fn refuse(&mut self) -> Result<(), String> {
        Err("not today".into())
    }

    /// Blocks until the log is open.
    #[entry]
    fn wait(&mut self, number: u64, name: String) {
        begins(number, &name);
        (self.log, self.name) = (number, name);
        postroom::block_in_place(|| {
            while !log(number, |log| log.is_open) {
                std::thread::sleep(Duration::from_micros(100));
            }
        });
    }

    #[message]
    pub(super) fn touch(&mut self) -> u64 {
        self.touched += 1;
        self.touched
    }

    #[message]
    fn fail(&mut self) {
        panic!("broken");
    }

    #[message(local)]
    fn audit(&mut self) -> u64 {
        self.touched
    }

    #[signal]
    fn exit(&mut self, _exit: Exit) {}

    #[signal]
    fn cancel(&mut self, ctx: &mut Context<Self>, cancel: Cancel) {
        log(self.log, |log| log.events.push(format!("cancel {}: {}", self.name, cancel.reason)));
        ctx.stop();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        ends(self.log, &self.name);
    }
}

fn ends(number: u64, name: &str) {
    if number != 0 {
        log(number, |log| {
            *log.alive.entry(name.to_owned()).or_default() -= 1;
            log.events.push(format!("end {name}"));
        });
    }
}

/// A process that does not end when it is cancelled.
#[process]
#[derive(Default)]
pub(super) struct Mule {
    log: u64,
}

#[process(remote)]
impl Mule {
    #[entry]
    fn serve(&mut self, log: u64) {
        begins(log, "mule");
        self.log = log;
    }

    #[signal]
    fn cancel(&mut self, _cancel: Cancel) {
        log(self.log, |log| log.events.push("cancel mule".into()));
    }
}

impl Drop for Mule {
    fn drop(&mut self) {
        ends(self.log, "mule");
    }
}

/// Creates a node that exports the types that these tests start.
pub(super) fn join_with(nodes: &Nodes, name: &str, set: impl FnOnce(Builder) -> Builder) -> Node {
    let runtime = Runtime::builder().workers(2).logical_node(NodeId::random()).build().unwrap();
    let client = Arc::new(nodes.broker.connect());
    let builder = Cluster::builder("bank").node(name).export::<Worker>().export::<Mule>();
    let clock = Arc::clone(&nodes.lock().clock);
    let clock = Arc::new(move || Moment::after_start(Duration::from_millis(clock.load(Ordering::Relaxed))));
    let (cluster, driver, delivery) = set(builder).prepare(*runtime, client.clone(), clock).unwrap();
    let mut world = nodes.lock();
    world.hosts.push(*runtime);
    world.machines.push(Machine { driver: Some(driver), delivery: Some(delivery) });
    drop(world);
    Node { cluster, client, runtime }
}

pub(super) fn all_meet(nodes: &[&Node]) {
    for node in nodes {
        let others = nodes.len() - 1;
        assert!(node.cluster.wait_for_members(others, Duration::from_secs(60)), "{:?}", node.cluster.members());
        until("it is a member", || node.cluster.is_member());
    }
}

fn three_workers() -> (Nodes, [Node; 3]) {
    let nodes = Nodes::new();
    let three = ["eu-1", "eu-2", "eu-3"].map(|name| join_with(&nodes, name, |builder| builder));
    all_meet(&three.each_ref());
    (nodes, three)
}

/// Sets short restart delays, so that the test takes little real time, and allows any number of restarts.
fn patient(supervisor: Supervisor) -> Supervisor {
    let backoff = Backoff::exponential(Duration::from_millis(1), Duration::from_millis(5));
    supervisor.intensity(u32::MAX, Duration::from_secs(1)).backoff(backoff)
}

/// Returns a child of this name on the node `to`.
fn on_node(from: &Node, to: &str, log: u64, name: &'static str) -> Child<impl postroom::generic::Spawned> {
    let node = from.cluster.node(to).unwrap();
    Child::new(name, move |spawn| spawn.on(&node).start::<Worker>("serve", payloads![log, name.to_owned()]))
}

fn child(tree: &Tree, name: &str) -> ChildInfo {
    tree.children().into_iter().find(|child| &*child.name == name).unwrap()
}

/// The text of the reason for a lost node.
const LOST: &str = "its node was lost";

fn runs(tree: &Tree, name: &str) -> bool {
    child(tree, name).state == ChildState::Running
}

/// Returns how a child has most recently ended, as text. The text is empty if the child has not ended.
fn last(tree: &Tree, name: &str) -> String {
    child(tree, name).last.map(|last| last.to_string()).unwrap_or_default()
}

/// Waits until enough of the nodes' time has passed for all pending operations to finish.
fn settle(nodes: &Nodes) {
    nodes.pass(Duration::from_secs(30));
}

#[test]
fn a_child_on_another_node_is_called_and_restarted_there_when_it_fails() {
    let (nodes, [one, two, _three]) = three_workers();
    let number = new_log();
    let tree = patient(Supervisor::one_for_one()).add(on_node(&one, "eu-2", number, "a")).spawn(&one.runtime).unwrap();
    let worker: Address<Worker> = tree.child("a").unwrap();
    until("it runs", || runs(&tree, "a"));
    let first = child(&tree, "a");
    assert_eq!(first.pid.unwrap().node(), two.cluster.id());
    assert_eq!((first.node.as_deref(), first.process), (Some("eu-2"), Some("Worker")));
    assert!(first.to_string().ends_with("> on eu-2 running"), "{first}");
    assert_eq!(on(&one, move || (worker.touch().wait(), worker.touch().wait())), (Ok(1), Ok(2)));
    let failed = on(&one, move || worker.fail().wait());
    assert!(matches!(failed, Err(CallError::Died(ExitReason::Panic(_)))), "{failed:?}");
    until("it was restarted", || child(&tree, "a").restarts == 1 && runs(&tree, "a"));
    assert_eq!(on(&one, move || worker.touch().wait()), Ok(1), "a new one, at the same address");
    let end = last(&tree, "a");
    assert!(end.starts_with("panic: broken") && end.contains(", while handling ") && end.contains("Fail"), "{end}");
    assert!(tree.stop());
    assert_eq!(tree.join().wait(), ExitReason::Normal);
    settle(&nodes);
    assert_eq!(lives(number), 0);
}

#[test]
fn a_child_on_any_node_is_restarted_on_another_when_its_node_is_lost() {
    let (nodes, [one, two, three]) = three_workers();
    let number = new_log();
    let cluster = one.cluster.clone();
    let child_of_any =
        Child::new("a", move |spawn| spawn.on(&cluster).start::<Worker>("serve", payloads![number, "a".to_owned()]));
    let tree = patient(Supervisor::one_for_one()).add(child_of_any).spawn(&one.runtime).unwrap();
    until("it runs", || runs(&tree, "a"));
    // Fails the child until it runs on the second node: each failure moves it to the next node.
    let worker: Address<Worker> = tree.child("a").unwrap();
    until("it is there", || {
        let info = child(&tree, "a");
        let is_there = info.state == ChildState::Running && info.pid.is_some_and(|pid| pid.node() == two.cluster.id());
        if !is_there && info.state == ChildState::Running {
            let _ = on(&one, move || worker.fail().wait());
        }
        is_there
    });
    let before = child(&tree, "a").pid.unwrap();
    two.client.disconnect();
    // Each check uses a single snapshot: between two of them, the child may be lost or restarted.
    let mut after = None;
    until("it was restarted", || {
        let info = child(&tree, "a");
        after = info.pid.filter(|pid| info.state == ChildState::Running && *pid != before);
        after.is_some()
    });
    let after = after.unwrap();
    assert!([one.cluster.id(), three.cluster.id()].contains(&after.node()), "{after}");
    assert_eq!(last(&tree, "a"), LOST);
    until("the one on the lost node is ended, though it traps exits", || !before.is_alive());
    two.client.reconnect();
    all_meet(&[&one, &two, &three]);
    settle(&nodes);
    assert_eq!((lives(number), child(&tree, "a").pid), (1, Some(after)));
    tree.stop();
    tree.join().wait();
    until("none is left", || lives(number) == 0);
}

#[test]
fn a_child_on_one_node_comes_back_with_its_node_and_only_once() {
    let (nodes, [one, two, three]) = three_workers();
    let number = new_log();
    let tree = patient(Supervisor::one_for_one()).add(on_node(&one, "eu-2", number, "a")).spawn(&one.runtime).unwrap();
    until("it runs", || runs(&tree, "a"));
    let before = child(&tree, "a").pid.unwrap();
    two.client.disconnect();
    until("a start has failed", || last(&tree, "a").contains("node `eu-2` cannot be reached"));
    assert_ne!(child(&tree, "a").state, ChildState::Running);
    two.client.reconnect();
    all_meet(&[&one, &two, &three]);
    until("it runs again", || runs(&tree, "a"));
    let after = child(&tree, "a").pid.unwrap();
    assert_eq!(after.node(), two.cluster.id());
    until("the first has ended", || !before.is_alive());
    settle(&nodes);
    assert_eq!((lives(number), child(&tree, "a").pid), (1, Some(after)));
}

/// A node that is restarted becomes another node with the same name.
#[test]
fn a_child_on_one_node_is_started_on_the_successor_of_that_node() {
    let (nodes, [one, two, three]) = three_workers();
    let number = new_log();
    let tree = patient(Supervisor::one_for_one()).add(on_node(&one, "eu-2", number, "a")).spawn(&one.runtime).unwrap();
    until("it runs", || runs(&tree, "a"));
    two.client.close();
    until("it is down", || last(&tree, "a").contains("node `eu-2` cannot be reached"));
    let successor = join_with(&nodes, "eu-2", |builder| builder);
    all_meet(&[&one, &three, &successor]);
    until("it runs again", || runs(&tree, "a"));
    let info = child(&tree, "a");
    assert_eq!((info.pid.unwrap().node(), info.node.as_deref()), (successor.cluster.id(), Some("eu-2")));
    until("the first has ended", || lives(number) == 1);
    settle(&nodes);
    assert_eq!(lives(number), 1);
}

/// In this case the child's end does not count as normal, so even a transient child is restarted on another node.
#[test]
fn a_child_is_restarted_on_another_node_when_the_runtime_of_its_node_is_shut_down() {
    let (nodes, [one, two, three]) = three_workers();
    let number = new_log();
    let (first, other) = (one.cluster.node("eu-2").unwrap(), one.cluster.node("eu-3").unwrap());
    let mut places = [first].into_iter();
    let child_of_two = Child::new("a", move |spawn| {
        let place = places.next().unwrap_or_else(|| other.clone());
        spawn.on(&place).start::<Worker>("serve", payloads![number, "a".to_owned()])
    });
    let tree = patient(Supervisor::one_for_one()).add(child_of_two.transient()).spawn(&one.runtime).unwrap();
    until("it runs", || runs(&tree, "a"));
    two.runtime.shutdown().unwrap();
    until("it runs again", || child(&tree, "a").restarts == 1 && runs(&tree, "a"));
    assert_eq!((child(&tree, "a").pid.unwrap().node(), last(&tree, "a")), (three.cluster.id(), LOST.to_owned()));
    settle(&nodes);
    assert_eq!(lives(number), 1);
}

/// Here it is the node of the supervisor that is cut off.
#[test]
fn children_end_when_the_node_of_their_supervisor_is_lost() {
    let (nodes, [one, two, three]) = three_workers();
    let number = new_log();
    let tree = patient(Supervisor::one_for_one())
        .add(on_node(&one, "eu-2", number, "a"))
        .add(on_node(&one, "eu-3", number, "b"))
        .spawn(&one.runtime)
        .unwrap();
    until("both run", || runs(&tree, "a") && runs(&tree, "b"));
    one.client.close();
    until("both are ended", || lives(number) == 0);
    settle(&nodes);
    assert_eq!(lives(number), 0);
    let cancelled = events(number).iter().filter(|event| event.starts_with("cancel")).count();
    assert_eq!(cancelled, 0, "killed: no one waits for them");
    for node in [&two, &three] {
        until("it is forgotten", || node.cluster.members().iter().all(|member| member.id != one.cluster.id()));
    }
}

/// The mule has to be killed. If it has not ended 200 ms after the kill, as can happen on a busy machine, its
/// supervisor continues with the child before it. So only the order of the other children is certain.
#[test]
fn a_supervisor_that_is_stopped_stops_its_children_in_order_wherever_they_are() {
    let (nodes, [one, _two, _three]) = three_workers();
    let number = new_log();
    let mules = one.cluster.node("eu-3").unwrap();
    let mule = Child::new("mule", move |spawn| spawn.on(&mules).start::<Mule>("serve", payloads![number]));
    let local = Child::new("b", move |spawn| spawn.of(Worker::default()).serve(number, "b".to_owned()));
    let while_ignored = Duration::from_secs(1);
    let tree = patient(Supervisor::one_for_one())
        .add(on_node(&one, "eu-2", number, "a").stop_within(Duration::MAX))
        .add(mule.stop_within(while_ignored))
        .add(local.stop_within(Duration::MAX))
        .add(on_node(&one, "eu-3", number, "c").stop_within(Duration::MAX))
        .spawn(&one.runtime)
        .unwrap();
    until("all run", || tree.children().iter().all(|child| child.state == ChildState::Running));
    assert_eq!(events(number), ["start a", "start mule", "start b", "start c"], "each when the one before it runs");
    let begun = std::time::Instant::now();
    assert!(tree.stop());
    assert_eq!(tree.join().wait(), ExitReason::Normal);
    assert!(begun.elapsed() >= while_ignored, "the mule had its time");
    until("the mule has ended too", || lives(number) == 0);
    let (of_mule, stops): (Vec<_>, Vec<_>) =
        events(number).split_off(4).into_iter().partition(|it| it.contains("mule"));
    let expected = ["cancel c: shutdown", "end c", "cancel b: shutdown", "end b", "cancel a: shutdown", "end a"];
    assert_eq!(stops, expected);
    // On a busy machine the kill may overtake the cancellation.
    let after_cancel = of_mule.strip_prefix(&["cancel mule".to_owned()][..]).unwrap_or(&of_mule);
    assert_eq!(after_cancel, ["end mule"], "{of_mule:?}");
    settle(&nodes);
}

#[test]
fn a_runtime_that_is_shut_down_stops_its_children_on_other_nodes_in_order() {
    let (_nodes, [one, _two, _three]) = three_workers();
    let number = new_log();
    let tree = patient(Supervisor::one_for_one())
        .add(on_node(&one, "eu-2", number, "a").stop_within(Duration::MAX))
        .add(on_node(&one, "eu-3", number, "b").stop_within(Duration::MAX))
        .spawn(&one.runtime)
        .unwrap();
    until("both run", || runs(&tree, "a") && runs(&tree, "b"));
    let report = one.runtime.shutdown_within(Duration::from_secs(60)).unwrap();
    assert!(report.is_clean(), "{report}");
    let expected = ["start a", "start b", "cancel b: shutdown", "end b", "cancel a: shutdown", "end a"];
    assert_eq!(events(number), expected);
}

#[test]
fn a_supervisor_that_is_killed_takes_its_children_along() {
    let (nodes, [one, _two, _three]) = three_workers();
    let number = new_log();
    let tree = patient(Supervisor::one_for_one()).add(on_node(&one, "eu-2", number, "a")).spawn(&one.runtime).unwrap();
    until("it runs", || runs(&tree, "a"));
    assert!(tree.pid().kill());
    assert_eq!(tree.join().wait(), ExitReason::Killed);
    until("its child has ended", || lives(number) == 0);
    settle(&nodes);
    assert_eq!(events(number), ["start a", "end a"]);
}

#[test]
fn a_supervisor_that_gives_up_stops_its_other_children() {
    let (nodes, [one, _two, _three]) = three_workers();
    let number = new_log();
    let backoff = Backoff::exponential(Duration::from_millis(1), Duration::from_millis(5));
    let tree = Supervisor::one_for_one()
        .intensity(2, Duration::MAX)
        .backoff(backoff)
        .add(on_node(&one, "eu-2", number, "a"))
        .add(on_node(&one, "eu-3", number, "b"))
        .spawn(&one.runtime)
        .unwrap();
    let worker: Address<Worker> = tree.child("a").unwrap();
    for restarts in 0..=2 {
        until("it runs", || {
            let info = child(&tree, "a");
            info.state == ChildState::Running && info.restarts == restarts && runs(&tree, "b")
        });
        let failed = on(&one, move || worker.fail().wait());
        assert!(matches!(failed, Err(CallError::Died(ExitReason::Panic(_)))), "{failed:?}; {:?}", tree.children());
    }
    let ExitReason::Error(error) = tree.join().wait() else { panic!("an error") };
    let gave_up = error.downcast_ref::<GaveUp>().unwrap();
    assert_eq!((&*gave_up.child, gave_up.restarts), ("a", 2));
    assert!(matches!(gave_up.reason, ExitReason::Panic(_)), "{}", gave_up.reason);
    assert_eq!(lives(number), 0);
    assert!(events(number).contains(&"cancel b: shutdown".to_owned()), "{:?}", events(number));
    settle(&nodes);
    assert_eq!(lives(number), 0);
}

#[test]
fn siblings_are_restarted_together_across_nodes() {
    let (_nodes, [one, _two, _three]) = three_workers();
    for rest_for_one in [false, true] {
        let number = new_log();
        let supervisor = if rest_for_one { Supervisor::rest_for_one() } else { Supervisor::one_for_all() };
        let tree = patient(supervisor)
            .add(Child::new("a", move |spawn| spawn.of(Worker::default()).serve(number, "a".to_owned())))
            .add(on_node(&one, "eu-2", number, "b"))
            .add(on_node(&one, "eu-3", number, "c"))
            .spawn(&one.runtime)
            .unwrap();
        until("all run", || ["a", "b", "c"].iter().all(|name| runs(&tree, name)));
        let worker: Address<Worker> = tree.child("b").unwrap();
        let _ = on(&one, move || worker.fail().wait());
        let starts = if rest_for_one { 5 } else { 6 };
        let started = || events(number).iter().filter(|event| event.starts_with("start")).count();
        until("they run again", || started() == starts && ["a", "b", "c"].iter().all(|name| runs(&tree, name)));
        let after = events(number).split_off(3);
        let all: &[&str] = match rest_for_one {
            true => &["end b", "cancel c: shutdown", "end c", "start b", "start c"],
            false => &[
                "end b",
                "cancel c: shutdown",
                "end c",
                "cancel a: shutdown",
                "end a",
                "start a",
                "start b",
                "start c",
            ],
        };
        assert_eq!(after, all);
        tree.stop();
        tree.join().wait();
        assert_eq!(lives(number), 0);
    }
}

/// The child ends before its start is answered, or just after. The reason for its end is not lost.
#[test]
fn a_transient_child_whose_work_is_done_is_not_restarted() {
    let (nodes, [one, _two, _three]) = three_workers();
    let number = new_log();
    let node = one.cluster.node("eu-2").unwrap();
    let job = Child::new("a", move |spawn| spawn.on(&node).start::<Worker>("work", payloads![number, "a".to_owned()]));
    let tree = patient(Supervisor::one_for_one())
        .add(job.transient())
        .add(on_node(&one, "eu-3", number, "b"))
        .spawn(&one.runtime)
        .unwrap();
    until("it is done", || child(&tree, "a").state == ChildState::Down && runs(&tree, "b"));
    assert_eq!((last(&tree, "a"), child(&tree, "a").restarts), ("normal".to_owned(), 0));
    settle(&nodes);
    assert_eq!(child(&tree, "a").restarts, 0);
    tree.stop();
    tree.join().wait();
    assert_eq!(lives(number), 0);
}

/// Like the previous test, but the end certainly precedes the answer: the test reports the end in place of the process.
#[test]
fn an_end_before_the_answer_to_its_start_is_told_behind_it() {
    let (_nodes, [one, two, _three]) = three_workers();
    let number = new_log();
    let node = one.cluster.node("eu-2").unwrap();
    let job = Child::new("a", move |spawn| spawn.on(&node).start::<Worker>("wait", payloads![number, "a".to_owned()]));
    let tree = patient(Supervisor::one_for_one())
        .add(job.transient())
        .add(on_node(&one, "eu-3", number, "b"))
        .spawn(&one.runtime)
        .unwrap();
    until("its entry runs", || lives(number) == 1);
    let peer = two.cluster.peer(one.cluster.id()).unwrap();
    (1..=64).for_each(|start| peer.charge_ended(start, &ExitReason::Normal, None));
    log(number, |log| log.is_open = true);
    until("it is done", || child(&tree, "a").state == ChildState::Down && runs(&tree, "b"));
    assert_eq!((last(&tree, "a"), child(&tree, "a").restarts), ("normal".to_owned(), 0));
}

#[test]
fn a_start_that_cannot_be_done_is_a_failed_start_with_its_reason() {
    let (nodes, [one, two, _three]) = three_workers();
    let failure =
        |start: Box<dyn FnMut(postroom::ChildSpawn) -> Result<_, Box<dyn std::error::Error + Send + Sync>> + Send>| {
            let tree = Supervisor::one_for_one().intensity(0, Duration::MAX);
            let mut start = start;
            let tree = tree
                .child("a", move |spawn| -> Result<postroom::supervision::StartingChild<Worker>, _> { start(spawn) });
            let tree = tree.spawn(&one.runtime).unwrap();
            let ExitReason::Error(error) = tree.join().wait() else { panic!("an error") };
            error.downcast_ref::<GaveUp>().unwrap().reason.to_string()
        };
    let node = one.cluster.node("eu-2").unwrap();
    let (refusing, wrong, unknown, leaving) = (node.clone(), node.clone(), node.clone(), node);
    let reason = failure(Box::new(move |spawn| spawn.on(&refusing).start("refuse", payloads![])));
    assert!(
        reason.starts_with("error: node `eu-2` has not said that it was started:") && reason.contains("not today"),
        "{reason}"
    );
    let reason = failure(Box::new(move |spawn| spawn.on(&wrong).start("serve", payloads![7])));
    assert!(reason.contains("serve"), "{reason}");
    let reason = failure(Box::new(move |spawn| spawn.on(&unknown).start("open", payloads![])));
    assert!(reason.contains("open"), "{reason}");

    // The entry does not return. The supervisor's timeout is in real time.
    let number = new_log();
    let hanging = one.cluster.node("eu-3").unwrap();
    let reason = failure(Box::new(move |spawn| {
        let spawn = spawn.on(&hanging).within(Duration::from_millis(20));
        spawn.start("wait", payloads![number, "a".to_owned()])
    }));
    assert!(reason.starts_with("error: node `eu-3` has not answered the start within 20ms"), "{reason}");
    log(number, |log| log.is_open = true);
    until("what was started late has ended", || events(number) == ["start a", "end a"]);

    two.cluster.leave().wait();
    until("it has left", || one.cluster.members().len() == 1);
    let reason = failure(Box::new(move |spawn| spawn.on(&leaving).start("serve", payloads![0_u64, String::new()])));
    assert!(reason.starts_with("error: node `eu-2` cannot be reached"), "{reason}");
    settle(&nodes);
    assert_eq!(lives(number), 0);
}

#[process]
#[derive(Default)]
struct Unexported;

#[process(remote)]
impl Unexported {
    #[entry]
    fn serve(&mut self) {}
}

#[test]
fn a_type_that_no_node_exports_has_no_place() {
    let (_nodes, [one, _two, _three]) = three_workers();
    let cluster = one.cluster.clone();
    let tree = Supervisor::one_for_one()
        .intensity(0, Duration::MAX)
        .child("a", move |spawn| spawn.on(&cluster).start::<Unexported>("serve", payloads![]))
        .spawn(&one.runtime)
        .unwrap();
    let ExitReason::Error(error) = tree.join().wait() else { panic!("an error") };
    assert!(error.to_string().contains("no node of the cluster that can be reached exports `Unexported`"), "{error}");
}

#[test]
fn a_supervisor_that_ends_during_a_start_leaves_no_process() {
    let (nodes, [one, _two, _three]) = three_workers();
    let number = new_log();
    let node = one.cluster.node("eu-2").unwrap();
    let tree = Supervisor::one_for_one()
        .child("a", move |spawn| spawn.on(&node).start::<Worker>("wait", payloads![number, "a".to_owned()]))
        .spawn(&one.runtime)
        .unwrap();
    until("its entry runs", || lives(number) == 1);
    assert!(tree.stop());
    assert_eq!(tree.join().wait(), ExitReason::Normal, "it does not wait for the answer");
    assert_eq!(lives(number), 1);
    log(number, |log| log.is_open = true);
    until("it has ended", || lives(number) == 0);
    settle(&nodes);
    assert_eq!(events(number), ["start a", "end a"]);
}

/// The process was started in an earlier session, and no component knows it.
#[test]
fn a_process_whose_start_was_cut_off_is_ended_when_it_is_there() {
    let (nodes, [one, two, three]) = three_workers();
    let number = new_log();
    let node = one.cluster.node("eu-2").unwrap();
    let mut entries = ["wait", "serve"].into_iter();
    let tree = patient(Supervisor::one_for_one())
        .child("a", move |spawn| {
            // The second process is started when the node is back.
            let entry = entries.next().unwrap_or("serve");
            spawn.on(&node).start::<Worker>(entry, payloads![number, entry.to_owned()])
        })
        .spawn(&one.runtime)
        .unwrap();
    until("its entry runs", || lives(number) == 1);
    two.client.disconnect();
    until("the start has failed", || child(&tree, "a").restarts > 0);
    until("the other side knows", || !two.cluster.is_member());
    two.client.reconnect();
    all_meet(&[&one, &two, &three]);
    log(number, |log| log.is_open = true);
    until("the second runs", || runs(&tree, "a"));
    settle(&nodes);
    let alive = log(number, |log| log.alive.clone());
    assert_eq!(alive, BTreeMap::from([("wait".to_owned(), 0), ("serve".to_owned(), 1)]));
}

#[test]
fn messages_that_are_sent_while_a_child_is_down_reach_its_successor_on_another_node() {
    let (_nodes, [one, two, three]) = three_workers();
    let number = new_log();
    let node = one.cluster.node("eu-2").unwrap();
    let spawn =
        move |spawn: postroom::ChildSpawn| spawn.on(&node).start::<Worker>("serve", payloads![number, "a".to_owned()]);
    let tree =
        patient(Supervisor::one_for_one()).add(Child::new("a", spawn).keep_messages()).spawn(&one.runtime).unwrap();
    let worker: Address<Worker> = tree.child("a").unwrap();
    until("it runs", || runs(&tree, "a"));
    two.client.disconnect();
    until("it is down", || last(&tree, "a").contains("cannot be reached"));
    // A message that cannot be sent remotely becomes a dead letter, and does not affect the others.
    let kept = on(&one, move || {
        (0..10).for_each(|_| worker.touch().send().unwrap());
        worker.audit().send()
    });
    assert!(kept.is_ok(), "{kept:?}");
    two.client.reconnect();
    all_meet(&[&one, &two, &three]);
    until("it runs again", || runs(&tree, "a"));
    assert_eq!(on(&one, move || worker.touch().wait()), Ok(11));
    until("the first has ended", || lives(number) == 1);
}

/// A peer may send anything, but is believed only about its own processes.
#[test]
fn a_peer_that_says_what_was_not_asked_changes_nothing() {
    let (nodes, [one, two, _three]) = three_workers();
    let number = new_log();
    let tree = patient(Supervisor::one_for_one()).add(on_node(&one, "eu-2", number, "a")).spawn(&one.runtime).unwrap();
    until("it runs", || runs(&tree, "a"));
    let pid = child(&tree, "a").pid.unwrap();
    let peer = two.cluster.peer(one.cluster.id()).unwrap();
    // No start with these numbers is open.
    for number in [7_777, u64::MAX] {
        peer.say(Envelope::Started { number, pid });
        peer.say(Envelope::ChildEnded { number, handling: String::new(), reason: bytes::Bytes::from_static(b"?") });
        peer.say(Envelope::Told { number, told: crate::envelope::ToldKind::Info, bytes: bytes::Bytes::new() });
    }
    // A process of another node.
    let own = one.runtime.spawn(Observer::default()).serve().unwrap().pid();
    peer.say(Envelope::Started { number: 7_777, pid: own });
    until("it is counted", || one.cluster.statistics().undecodable == 1);
    settle(&nodes);
    assert!(runs(&tree, "a") && own.is_alive());
    assert_eq!((child(&tree, "a").pid, lives(number)), (Some(pid), 1));
}
