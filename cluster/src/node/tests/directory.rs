//! Groups, topics, eventual names and keys of whole nodes.

use super::asks::Gate;
use super::*;
use crate::eventual::ClaimError;
use crate::groups::MembershipError;
use crate::keyed::{KeyedError, home};
use crate::topics::{MAX_EVENTS, TopicSubscribeError};
use crate::{BroadcastError, NameLost};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::thread::ThreadId;

/// A member of groups and a subscriber to topics, which records what it receives.
#[process]
#[derive(Default)]
struct Teller {
    rates: Vec<u32>,
    changes: Vec<String>,
    inside: BTreeSet<Pid>,
    lost: Vec<NameLost>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Price {
    cents: u32,
}

#[process(remote)]
impl Teller {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn rate(&mut self, rate: u32) {
        self.rates.push(rate);
    }

    #[message(local)]
    fn rates(&mut self) -> Vec<u32> {
        self.rates.clone()
    }

    #[message(local)]
    fn watch(&mut self, ctx: &mut Context<Self>, group: crate::ClusterGroup) -> Result<(), MembershipError> {
        self.inside.extend(group.subscribe(ctx.address())?);
        Ok(())
    }

    #[message(GroupEvent, local)]
    fn changed(&mut self, event: GroupEvent) {
        match event {
            GroupEvent::Joined { pid, .. } => {
                assert!(self.inside.insert(pid), "it was inside");
                self.changes.push("joined".into());
            }
            GroupEvent::Left { pid, reason, .. } => {
                assert!(self.inside.remove(&pid), "it was not inside");
                self.changes.push(reason.map_or("left".into(), |reason| format!("left: {reason}")));
            }
            _ => {}
        }
    }

    #[message(local)]
    fn inside(&mut self) -> (BTreeSet<Pid>, Vec<String>) {
        (self.inside.clone(), self.changes.clone())
    }

    #[message(Price, local)]
    fn price(&mut self, price: Price) {
        self.rates.push(price.cents);
    }

    #[message(NameLost, local)]
    fn lost(&mut self, lost: NameLost) {
        self.lost.push(lost);
    }

    #[message(local)]
    fn losses(&mut self) -> Vec<NameLost> {
        self.lost.clone()
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

/// A process that no node exports.
#[process]
#[derive(Default)]
struct Unknown;

#[process(remote)]
impl Unknown {
    #[entry]
    fn open(&mut self, key: String) {
        drop(key);
    }
}

/// A process with a key.
#[process]
#[derive(Default)]
struct Till {
    key: String,
    takings: u32,
}

#[process(remote)]
impl Till {
    #[entry]
    fn open(&mut self, key: String) {
        assert_ne!(key, "cursed", "no such till");
        self.key = key;
    }

    #[message]
    fn take(&mut self, amount: u32) -> (String, u32) {
        self.takings += amount;
        (self.key.clone(), self.takings)
    }
}

/// The gates at which the entries of [`Vault`] wait, by key.
static GATES: Mutex<BTreeMap<String, Arc<Gate>>> = Mutex::new(BTreeMap::new());

/// A process with a key. It is slow to start.
#[process]
#[derive(Default)]
struct Vault {
    key: String,
}

#[process(remote)]
impl Vault {
    #[entry]
    fn open(&mut self, key: String) {
        let gate = GATES.lock().unwrap().get(&key).cloned();
        if let Some(gate) = gate {
            gate.pass();
        }
        self.key = key;
    }

    #[message]
    fn key(&mut self) -> String {
        self.key.clone()
    }
}

type Answer = Result<Address<Vault>, KeyedError>;

/// Returns a node on which the start of this key's vault waits at the gate, and the thread that has requested it.
fn starting(key: &str) -> (Nodes, Node, Arc<Gate>, std::thread::JoinHandle<Answer>) {
    let nodes = Nodes::new();
    let node = nodes.join_as("eu-1", |builder| builder.export::<Vault>());
    until("it is a member", || node.cluster.is_member());
    let gate = Arc::new(Gate::default());
    GATES.lock().unwrap().insert(key.to_owned(), Arc::clone(&gate));
    let asked = node.cluster.keyed::<Vault>(key);
    let asks = std::thread::spawn(move || asked.wait());
    until("the start is running", || gate.waiting() == 1);
    (nodes, node, gate, asks)
}

fn join(nodes: &Nodes, name: &str) -> Node {
    nodes.join_as(name, |builder| builder.export::<Teller>().export::<Till>())
}

fn nodes(count: usize) -> (Nodes, Vec<Node>) {
    let nodes = Nodes::new();
    let all: Vec<_> = (1..=count).map(|number| join(&nodes, &format!("eu-{number}"))).collect();
    for node in &all {
        assert!(node.cluster.wait_for_members(count - 1, Duration::from_secs(60)));
        until("it is a member", || node.cluster.is_member());
    }
    (nodes, all)
}

fn teller(node: &Node) -> Address<Teller> {
    node.runtime.spawn(Teller::default()).serve().unwrap()
}

fn members(node: &Node) -> Vec<Pid> {
    node.cluster.group("tellers").members().wait().unwrap()
}

/// Waits until each node knows the members.
fn until_members(nodes: &[Node], expected: &[Address<Teller>]) {
    let expected: BTreeSet<_> = expected.iter().map(|teller| teller.pid()).collect();
    for node in nodes {
        until("the members are known", || members(node).into_iter().collect::<BTreeSet<_>>() == expected);
    }
}

#[test]
fn a_broadcast_reaches_each_member_once_and_in_order() {
    let (_nodes, nodes) = nodes(3);
    let tellers = [teller(&nodes[0]), teller(&nodes[0]), teller(&nodes[1])];
    for (teller, node) in tellers.iter().zip([&nodes[0], &nodes[0], &nodes[1]]) {
        assert_eq!(node.cluster.group("tellers").join(*teller), Ok(true));
    }
    // A process that joins twice and leaves once is still a member.
    assert_eq!(nodes[1].cluster.group("tellers").join(tellers[2]), Ok(false));
    assert!(nodes[1].cluster.group("tellers").leave(tellers[2]));
    until_members(&nodes, &tellers);
    let from_outside = nodes[2].cluster.group("tellers");
    on(&nodes[2], || {
        for rate in 0..200 {
            let sent = from_outside.broadcast(TellerRate { rate }).unwrap();
            assert_eq!((sent.here, sent.nodes, sent.missed, sent.refused.len()), (0, 2, 0, 0));
        }
    });
    for teller in &tellers {
        until("all rates have come", || teller.rates().wait().unwrap() == (0..200).collect::<Vec<_>>());
    }
    let sent = on(&nodes[0], || nodes[0].cluster.group("tellers").broadcast(TellerRate { rate: 200 })).unwrap();
    assert_eq!((sent.here, sent.nodes), (2, 1), "one message for the other node");
    assert!(tellers.iter().all(|teller| nodes[0].cluster.group("tellers").leave(*teller) || teller == &tellers[2]));
    until_members(&nodes, &tellers[2..]);
    assert!(nodes.iter().all(|node| losses(node) == crate::Statistics::default()));
}

#[test]
fn members_leave_with_their_end_and_with_their_node_and_come_back_with_it() {
    let (_nodes, nodes) = nodes(3);
    let (watcher, tellers) = (teller(&nodes[0]), [teller(&nodes[1]), teller(&nodes[1]), teller(&nodes[2])]);
    watcher.watch(nodes[0].cluster.group("tellers")).wait().unwrap();
    for (teller, node) in tellers.iter().zip([&nodes[1], &nodes[1], &nodes[2]]) {
        node.cluster.group("tellers").join(*teller).unwrap();
    }
    let inside = |tellers: &[Address<Teller>]| {
        let expected: BTreeSet<_> = tellers.iter().map(|teller| teller.pid()).collect();
        until("the watcher knows the members", || watcher.inside().wait().unwrap().0 == expected);
    };
    inside(&tellers);
    tellers[0].pid().kill();
    inside(&tellers[1..]);
    nodes[1].client.disconnect();
    inside(&tellers[2..]);
    until("it is cut off", || !nodes[1].cluster.is_member());
    assert_eq!(members(&nodes[1]), [tellers[1].pid()], "on its own it knows its own");
    nodes[1].client.reconnect();
    inside(&tellers[1..]);
    until_members(&nodes, &tellers[1..]);
    nodes[2].cluster.group("tellers").leave(tellers[2]);
    inside(&tellers[1..2]);
    let changes = watcher.inside().wait().unwrap().1;
    let expected =
        ["joined", "joined", "joined", "left: killed", "left: its node was lost", "joined", "left"].map(str::to_owned);
    assert_eq!(changes, expected);
}

#[test]
fn what_cannot_join_or_be_broadcast_is_refused_with_its_reason() {
    let (_nodes, nodes) = nodes(2);
    let (here, there) = (teller(&nodes[0]), teller(&nodes[1]));
    let group = nodes[0].cluster.group("tellers");
    assert_eq!(group.join(there), Err(MembershipError::Elsewhere { pid: there.pid() }));
    assert_eq!(nodes[0].cluster.group("").join(here), Err(MembershipError::Length { bytes: 0 }));
    let unknown = group.broadcast("text".to_owned());
    assert_eq!(unknown, Err(BroadcastError::NotExported { type_name: std::any::type_name::<String>() }));
    let pid = here.pid();
    pid.kill();
    pid.join().wait();
    assert_eq!(group.join(pid), Err(MembershipError::Ended { pid }));
    assert_eq!(nodes[0].cluster.register_eventual("a", pid), Err(ClaimError::Ended { pid }));
    let topic = nodes[0].cluster.topic::<Price>("prices");
    assert_eq!(topic.subscribe(pid), Err(TopicSubscribeError::Ended { pid }));
    assert_eq!(topic.subscribe(there), Err(TopicSubscribeError::Elsewhere { pid: there.pid() }));
    nodes[0].cluster.leave().wait();
    let other = teller(&nodes[0]);
    until("it has left", || group.join(other) == Err(MembershipError::Left));
    assert_eq!(group.members().wait(), Err(MembershipError::Left));
    assert_eq!(nodes[0].cluster.register_eventual("a", other), Err(ClaimError::Left));
    assert_eq!(topic.subscribe(other), Err(TopicSubscribeError::Left));
    assert_eq!(nodes[0].cluster.keyed::<Till>("a").wait(), Err(KeyedError::NotAMember));
}

#[test]
fn a_member_without_room_misses_its_copy_and_that_is_counted() {
    let (_nodes, nodes) = nodes(2);
    let busy = nodes[1].runtime.spawn(Teller::default()).mailbox(Bound::Hard(4, Overflow::Refuse)).serve().unwrap();
    let (free, gate) = (teller(&nodes[1]), Arc::new(AtomicBool::new(false)));
    [busy, free].iter().for_each(|teller| _ = nodes[1].cluster.group("tellers").join(*teller));
    until_members(&nodes, &[busy, free]);
    busy.stand(Arc::clone(&gate)).send().unwrap();
    let group = nodes[0].cluster.group("tellers");
    on(&nodes[0], || (0..100).for_each(|rate| assert_eq!(group.broadcast(TellerRate { rate }).unwrap().nodes, 1)));
    until("the other has all", || free.rates().wait().unwrap().len() == 100);
    gate.store(true, Ordering::Relaxed);
    let taken = || busy.rates().wait().map_or(0, |rates| rates.len() as u64);
    until("each copy was taken or counted", || taken() + nodes[1].cluster.statistics().missed == 100);
    assert!(taken() < 100);
}

#[test]
fn an_event_reaches_the_subscribers_of_all_nodes() {
    let (_nodes, nodes) = nodes(3);
    let tellers: Vec<_> = nodes.iter().map(teller).collect();
    for (node, teller) in nodes.iter().zip(&tellers) {
        let topic = node.cluster.topic::<Price>("prices.gold");
        assert_eq!((topic.subscribe(*teller), topic.subscribe(*teller)), (Ok(true), Ok(false)));
    }
    let topic = nodes[0].cluster.topic::<Price>("prices.gold");
    // Publishes until the subscriptions have reached the broker.
    let mut cents = 0;
    until("all have heard one", || {
        cents += 1;
        topic.publish(Price { cents }).unwrap();
        tellers.iter().all(|teller| !teller.rates().wait().unwrap().is_empty())
    });
    (1_000..1_500).for_each(|cents| topic.publish(Price { cents }).unwrap());
    for teller in &tellers {
        until("all events have come", || teller.rates().wait().unwrap().ends_with(&[1_498, 1_499]));
        let rates = teller.rates().wait().unwrap();
        assert!(rates.windows(2).all(|two| two[0] + 1 == two[1] || two[1] == 1_000), "in order, each once: {rates:?}");
    }
    // Nothing arrives after the end of the subscription, nor from another topic.
    assert!(nodes[0].cluster.topic::<Price>("prices.gold").unsubscribe(tellers[0]));
    assert!(!topic.unsubscribe(tellers[0]));
    nodes[0].cluster.topic::<Price>("prices").publish(Price { cents: 1 }).unwrap();
    topic.publish(Price { cents: 2_000 }).unwrap();
    until("the others hear it", || tellers[1..].iter().all(|t| t.rates().wait().unwrap().ends_with(&[1_499, 2_000])));
    assert!(tellers[0].rates().wait().unwrap().ends_with(&[1_499]));
    assert!(nodes.iter().all(|node| losses(node) == crate::Statistics::default()));
}

#[test]
fn events_of_another_shape_and_those_without_room_are_counted() {
    #[derive(Clone, Serialize, Deserialize)]
    struct Other {
        euros: u32,
    }

    let (_nodes, nodes) = nodes(2);
    let (busy, gate) = (teller(&nodes[1]), Arc::new(AtomicBool::new(false)));
    let topic = nodes[1].cluster.topic::<Price>("prices");
    topic.subscribe(busy).unwrap();
    let publishes = nodes[0].cluster.topic::<Price>("prices");
    until("it has heard one", || {
        publishes.publish(Price { cents: 0 }).unwrap();
        !busy.rates().wait().unwrap().is_empty()
    });
    nodes[0].cluster.topic::<Other>("prices").publish(Other { euros: 1 }).unwrap();
    until("it is counted", || nodes[1].cluster.statistics().mismatched == 1);
    // A subscriber is full, and a flood of events exceeds the backlog.
    topic.unsubscribe(busy);
    let full = nodes[1].runtime.spawn(Teller::default()).mailbox(Bound::Hard(4, Overflow::Refuse)).serve().unwrap();
    topic.subscribe(full).unwrap();
    until("it has heard one", || {
        publishes.publish(Price { cents: 0 }).unwrap();
        !full.rates().wait().unwrap().is_empty()
    });
    full.stand(Arc::clone(&gate)).send().unwrap();
    let before = (full.rates(), nodes[1].cluster.statistics().missed);
    drop(before);
    let missed = || nodes[1].cluster.statistics().missed;
    let before = missed();
    let count = 2 * MAX_EVENTS as u64;
    let mut sent = 0;
    until("all are published", || {
        while sent < count && publishes.publish(Price { cents: 7 }).is_ok() {
            sent += 1;
        }
        sent == count
    });
    until("most are counted", || missed() - before >= count - 64);
    gate.store(true, Ordering::Relaxed);
    let taken = || full.rates().wait().map_or(0, |rates| rates.iter().filter(|rate| **rate == 7).count() as u64);
    until("each event was taken or counted", || taken() + missed() - before >= count);
}

#[test]
fn both_sides_of_a_split_hold_an_eventual_name_and_then_one() {
    let (_nodes, nodes) = nodes(3);
    let tellers: Vec<_> = nodes.iter().map(teller).collect();
    nodes[0].cluster.register_eventual("early", tellers[0]).unwrap();
    until("all know it", || nodes.iter().all(|node| node.cluster.eventual_holder("early") == Some(tellers[0].pid())));
    let taken = ClaimError::Taken { name: "early".into(), holder: tellers[0].pid() };
    assert_eq!(nodes[2].cluster.register_eventual("early", tellers[2]), Err(taken));
    nodes[2].client.disconnect();
    until("it is cut off", || {
        !nodes[2].cluster.is_member() && nodes[0].cluster.members().len() == 1 && {
            nodes[2].cluster.eventual_holder("early").is_none()
        }
    });
    // Registered at the same time on both sides.
    for at in [0, 2] {
        assert_eq!(nodes[at].cluster.register_eventual("late", tellers[at]), Ok(true));
        assert_eq!(nodes[at].cluster.eventual_holder("late"), Some(tellers[at].pid()));
    }
    assert_eq!(nodes[2].cluster.register_eventual("early", tellers[2]), Ok(true));
    nodes[2].client.reconnect();
    let holders = |name: &str| -> BTreeSet<_> { nodes.iter().map(|node| node.cluster.eventual_holder(name)).collect() };
    until("one is left", || {
        ["early", "late"].iter().all(|name| holders(name).len() == 1 && !holders(name).contains(&None))
            && nodes[2].cluster.wait_for_members(2, Duration::ZERO)
    });
    let losses: Vec<_> = [0, 2].iter().flat_map(|at| tellers[*at].losses().wait().unwrap()).collect();
    for name in ["early", "late"] {
        let holder = holders(name).pop_first().flatten().unwrap();
        let lost = NameLost { name: name.into(), holder };
        until("the loser was told", || {
            let losses: Vec<_> = [0, 2].iter().flat_map(|at| tellers[*at].losses().wait().unwrap()).collect();
            losses.iter().filter(|other| **other == lost).count() == 1
        });
    }
    drop(losses);
    let losses: usize = tellers.iter().map(|teller| teller.losses().wait().unwrap().len()).sum();
    assert_eq!(losses, 2, "each once");
    let at = if holders("late").contains(&Some(tellers[0].pid())) { 0 } else { 2 };
    tellers[at].pid().kill();
    until("its name is free", || holders("late") == BTreeSet::from([None]));
    assert_eq!(nodes[1].cluster.register_eventual("late", tellers[1]), Ok(true));
    assert!(nodes[1].cluster.release_eventual("late", tellers[1]));
}

fn till(node: &Node, key: &str) -> Address<Till> {
    let mut found = None;
    // Repeats the request while members change.
    until("the key has a process", || match node.cluster.keyed::<Till>(key).wait() {
        Ok(till) => {
            found = Some(till);
            true
        }
        Err(KeyedError::Timeout) => false,
        Err(error) => panic!("{error}"),
    });
    found.unwrap()
}

#[test]
fn a_key_has_one_process_where_it_is_at_home() {
    let (world, mut nodes) = nodes(3);
    let keys: Vec<_> = (0..24).map(|number| format!("till-{number}")).collect();
    // Each process is started once, though all nodes request it at the same time.
    let found: Vec<Vec<_>> = std::thread::scope(|scope| {
        let asks = nodes.iter().map(|node| scope.spawn(|| keys.iter().map(|key| till(node, key)).collect()));
        let asks: Vec<_> = asks.collect();
        asks.into_iter().map(|ask| ask.join().unwrap()).collect()
    });
    assert!(found.iter().all(|tills| *tills == found[0]));
    let ids = || nodes.iter().map(|node| node.cluster.id());
    for (key, till) in keys.iter().zip(&found[0]) {
        assert_eq!(Some(till.pid().node()), home("Till", key, ids()));
        let (till, expected) = (*till, (key.clone(), 5));
        assert_eq!(on(&nodes[0], move || till.take(5).wait()), Ok(expected));
    }
    let on_all: BTreeSet<_> = found[0].iter().map(|till| till.pid().node()).collect();
    assert_eq!(on_all.len(), 3, "the keys are spread");
    // A process that has ended is started again.
    found[0][0].pid().kill();
    until("it has another process", || till(&nodes[1], &keys[0]) != found[0][0]);

    // A further node joins: only its keys move, and their earlier processes end.
    nodes.push(join(&world, "eu-4"));
    for node in &nodes {
        assert!(node.cluster.wait_for_members(3, Duration::from_secs(60)));
    }
    let ids: Vec<_> = nodes.iter().map(|node| node.cluster.id()).collect();
    let new = ids[3];
    let mut moved = 0;
    for (key, before) in keys.iter().zip(&found[0]).skip(1) {
        let home = home("Till", key, ids.iter().copied()).unwrap();
        until("it is at home", || till(&nodes[0], key).pid().node() == home);
        if home == new {
            moved += 1;
            until("the one before has ended", || !before.pid().is_alive());
        } else {
            assert_eq!(till(&nodes[0], key), *before, "it stays where it is");
        }
    }
    assert!(moved > 0, "none of {} keys moves to {new}", keys.len());

    // The new node is cut off: its keys move again, and their processes are started elsewhere; the node stops its own
    // processes.
    let there: Vec<_> = keys.iter().filter(|key| home("Till", key, ids.iter().copied()) == Some(new)).collect();
    let before: Vec<_> = there.iter().map(|key| till(&nodes[0], key)).collect();
    nodes[3].client.disconnect();
    until("the loss is heard", || nodes[0].cluster.members().len() == 2);
    for key in there {
        until("it has moved", || till(&nodes[0], key).pid().node() != new);
    }
    until("those of the node that is cut off end", || before.iter().all(|till| !till.pid().is_alive()));
}

#[test]
fn what_has_no_process_by_key_is_refused_with_its_reason() {
    let (_nodes, nodes) = nodes(2);
    let ask = |key: &str| nodes[0].cluster.keyed::<Till>(key);
    assert_eq!(ask("").wait(), Err(KeyedError::Length { bytes: 0 }));
    assert!(matches!(ask("cursed").wait(), Err(KeyedError::Failed { .. })), "its entry panics");
    assert!(matches!(ask("a").entry("close").wait(), Err(KeyedError::Failed { .. })), "it has no such entry");
    // The entry takes a number.
    assert!(matches!(nodes[0].cluster.keyed::<Account>("a").entry("serve").wait(), Err(KeyedError::Failed { .. })));
    assert!(matches!(nodes[0].cluster.keyed::<Unknown>("a").wait(), Err(KeyedError::NotExported { .. })));
    assert!(ask("a").wait().is_ok(), "the key is free after a start that failed");
}

#[test]
fn a_policy_decides_on_processes_by_key_too() {
    let nodes = Nodes::new();
    let one = join(&nodes, "eu-1");
    let two = nodes.join_as("eu-2", |builder| {
        let allow = |_: &crate::Member, ask: &crate::Ask| !matches!(ask, crate::Ask::Start { .. });
        builder.export::<Teller>().export::<Till>().allow(allow)
    });
    for node in [&one, &two] {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
        until("it is a member", || node.cluster.is_member());
    }
    let ids = [one.cluster.id(), two.cluster.id()];
    let keys = (0..).map(|number: u32| number.to_string());
    let key = keys.into_iter().find(|key| home("Till", key, ids) == Some(ids[1])).unwrap();
    assert_eq!(one.cluster.keyed::<Till>(&key).wait(), Err(KeyedError::Denied));
    assert_eq!(two.cluster.statistics().refused, 1);
    // The policy does not apply to the node's own program.
    assert!(two.cluster.keyed::<Till>(&key).wait().is_ok());
}

/// An error whose formatting blocks until its gate opens, or panics. It calls the cluster when it is dropped.
#[derive(Debug)]
struct Troublesome {
    cluster: Cluster,
    /// If `None`, formatting the error panics, and so does dropping it.
    gate: Option<Arc<Gate>>,
    /// The thread that runs the drivers of the nodes.
    driver: ThreadId,
    dropped: Arc<AtomicU64>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a gate")
    }
}

/// Number of times that user code ran on the thread of the drivers.
static ON_DRIVER: AtomicU64 = AtomicU64::new(0);

impl Troublesome {
    fn is_on_driver(&self) -> bool {
        let is_on_driver = std::thread::current().id() == self.driver;
        ON_DRIVER.fetch_add(u64::from(is_on_driver), Ordering::Relaxed);
        is_on_driver
    }
}

impl std::fmt::Display for Troublesome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.gate {
            // On the driver's thread it does not block: the test has to fail rather than hang.
            Some(gate) if !self.is_on_driver() => gate.pass(),
            Some(_) => {}
            None => panic!("no text"),
        }
        f.write_str("out of money")
    }
}

impl std::error::Error for Troublesome {}

impl Drop for Troublesome {
    fn drop(&mut self) {
        if !self.is_on_driver() {
            // Each of these takes the lock of the directory.
            self.cluster.group("tellers").members().wait().unwrap();
            assert!(self.cluster.eventual_holder("none").is_none());
        }
        self.dropped.fetch_add(1, Ordering::Relaxed);
        assert!(self.gate.is_some(), "no drop");
    }
}

/// The reason why a member of a group has ended may be a user's error. Formatting that error must block no node, and
/// dropping it may call the cluster.
#[test]
fn the_error_of_a_member_runs_on_no_thread_of_the_cluster() {
    let (world, nodes) = nodes(2);
    let (watcher, local) = (teller(&nodes[0]), teller(&nodes[1]));
    let members = [teller(&nodes[1]), teller(&nodes[1]), teller(&nodes[1])];
    watcher.watch(nodes[0].cluster.group("tellers")).wait().unwrap();
    local.watch(nodes[1].cluster.group("tellers")).wait().unwrap();
    members.iter().for_each(|member| _ = nodes[1].cluster.group("tellers").join(*member).unwrap());
    let inside = |teller: &Address<Teller>| teller.inside().wait().unwrap();
    for teller in [&watcher, &local] {
        until("all are inside", || inside(teller).0.len() == members.len());
    }
    let (gate, dropped) = (Arc::new(Gate::default()), Arc::<AtomicU64>::default());
    let driver = world.mover.as_ref().unwrap().thread().id();
    let error = |gate: Option<&Arc<Gate>>| {
        let (cluster, dropped) = (nodes[1].cluster.clone(), Arc::clone(&dropped));
        ExitReason::error(Troublesome { cluster, gate: gate.cloned(), driver, dropped })
    };
    members[0].pid().cancel(error(Some(&gate)));
    until("its text is asked for", || gate.waiting() > 0 || ON_DRIVER.load(Ordering::Relaxed) > 0);
    world.pass(Duration::from_secs(60));
    assert!(nodes.iter().all(|node| node.cluster.is_member()), "the leases were renewed");
    assert!(on(&nodes[0], || members[1].rate(1).wait().is_ok()), "messages arrive");
    gate.open();
    members[1].pid().cancel(error(None));
    members[2].pid().kill();
    for teller in [&watcher, &local] {
        until("all have left", || inside(teller).0.is_empty());
        let mut left = inside(teller).1.split_off(members.len());
        left.sort();
        let expected = ["left: error: an error whose `Display` panics", "left: error: out of money", "left: killed"];
        assert_eq!(left, expected.map(str::to_owned));
    }
    until("both errors are dropped", || dropped.load(Ordering::Relaxed) == 2);
    assert_eq!(ON_DRIVER.load(Ordering::Relaxed), 0, "on a thread of the cluster");
}

/// Catches: a keyed process that is started after the node has left, and therefore lives as long as the runtime.
#[test]
fn a_start_by_key_that_is_running_when_the_node_leaves_is_undone() {
    // If a thread is preempted, the time limit of the start may pass before the node leaves, so try several times.
    let is_told = (0..5).any(|round| {
        let (_nodes, node, gate, asks) = starting(&format!("leaves-{round}"));
        node.cluster.leave().wait();
        let answer = asks.join().unwrap();
        gate.open();
        until("nothing of it lives", || node.runtime.statistics().processes.live == 0);
        assert!(matches!(answer, Err(KeyedError::NotAMember | KeyedError::Timeout)), "{answer:?}");
        answer == Err(KeyedError::NotAMember)
    });
    assert!(is_told);
}

/// Catches: an entry that does not return and blocks all starts of the node. (Some of the other starts do wait behind
/// it.)
#[test]
fn a_start_by_key_that_takes_its_time_does_not_stop_all_others() {
    let (_nodes, node, gate, asks) = starting("slow");
    let is_started = |number: &i32| node.cluster.keyed::<Vault>(format!("quick-{number}")).wait().is_ok();
    assert!((0..8).any(|number| is_started(&number)), "all wait behind one");
    gate.open();
    let _in_time_or_not = asks.join().unwrap();
}

/// A group has a member on a node with which this one has no session.
///
/// Catches: a broadcast that omits a node without reporting it.
#[test]
fn a_broadcast_says_which_nodes_it_does_not_reach() {
    let (nodes, all) = nodes(2);
    let member = teller(&all[0]);
    all[0].cluster.group("tellers").join(member).unwrap();
    until_members(&all, &[member]);
    // The session is over, and the next one begins but does not open. The store still reports members.
    let driver = nodes.lock().machines[0].driver.take();
    let peer = || all[1].cluster.peer(all[0].cluster.id());
    let before = peer().unwrap();
    before.abort();
    until("the next begins", || peer().is_some_and(|peer| !Arc::ptr_eq(&peer, &before)));
    let sent = on(&all[1], || all[1].cluster.group("tellers").broadcast(TellerRate { rate: 7 })).unwrap();
    nodes.lock().machines[0].driver = driver;
    let is_told = matches!(sent.refused[..], [(node, SendFailure::UnknownNode(_))] if node == all[0].cluster.id());
    assert!(is_told && sent.nodes == 0, "{sent:?}");
}
