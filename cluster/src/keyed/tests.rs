//! Processes by key on several nodes, with sessions that begin and end at random.

use super::*;
use crate::clock::Moment;
use crate::directory::message::DirectoryMessage;
use crate::random::Random;
use crate::store::Revision;
use postroom::NodeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

const NODES: usize = 4;

struct World {
    nodes: Vec<KeyedProcesses>,
    sessions: BTreeMap<(usize, usize), VecDeque<DirectoryMessage>>,
    /// Starts that have not been answered.
    starting: Vec<(usize, KeyedStart)>,
    /// The live processes with their keys, and those of them that were told to stop.
    living: BTreeMap<Pid, String>,
    stopping: BTreeSet<Pid>,
    /// Unanswered questions, by node and number.
    asked: BTreeMap<(usize, u64), String>,
    found: Vec<(String, Result<Pid, KeyedError>)>,
    now: Moment,
    last: u64,
}

fn id(at: usize) -> NodeId {
    NodeId::new(at as u64 + 1).unwrap()
}

impl World {
    /// Returns a world in which all nodes but the first export the type.
    fn new() -> Self {
        let exports = |at| if at == 0 { BTreeSet::new() } else { BTreeSet::from(["Account"]) };
        let mut nodes: Vec<_> = (0..NODES).map(|at| KeyedProcesses::new(id(at), exports(at))).collect();
        nodes.iter_mut().for_each(|node| node.set_member(true));
        Self {
            nodes,
            sessions: BTreeMap::new(),
            starting: Vec::new(),
            living: BTreeMap::new(),
            stopping: BTreeSet::new(),
            asked: BTreeMap::new(),
            found: Vec::new(),
            now: Moment::START,
            last: 0,
        }
    }

    fn connect(&mut self, one: usize, other: usize) {
        if self.sessions.contains_key(&(one, other)) {
            return;
        }
        for (from, to) in [(one, other), (other, one)] {
            self.sessions.insert((from, to), VecDeque::new());
            let exports = if to == 0 { BTreeSet::new() } else { BTreeSet::from(["Account"]) };
            self.nodes[from].connected(id(to), exports);
        }
    }

    fn disconnect(&mut self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            if self.sessions.remove(&(from, to)).is_some() {
                self.nodes[from].disconnected(id(to));
            }
        }
    }

    fn ask(&mut self, at: usize, key: &str) {
        let number = self.nodes[at].ask(self.now, "Account", "open", key);
        assert!(self.asked.insert((at, number), key.to_owned()).is_none());
    }

    /// Carries out what one node requests.
    fn run(&mut self, at: usize, random: &mut Random) {
        self.nodes[at].handle_timeout(self.now);
        while let Some(start) = self.nodes[at].poll_start() {
            assert!(!self.starting.contains(&(at, start.clone())), "single flight");
            self.starting.push((at, start));
        }
        while let Some(pid) = self.nodes[at].poll_stop() {
            assert!(self.living.contains_key(&pid) && self.stopping.insert(pid), "stopped once");
        }
        while let Some(Found { number, result }) = self.nodes[at].poll_found() {
            let key = self.asked.remove(&(at, number)).expect("answered once");
            self.found.push((key, result));
        }
        for to in 0..NODES {
            let Some(queue) = self.sessions.get_mut(&(at, to)) else { continue };
            while let Some(message) = self.nodes[at].poll_message(id(to)) {
                if random.chance(20) {
                    self.nodes[at].refused(id(to), message);
                    break;
                }
                queue.push_back(message);
            }
        }
    }

    fn receive(&mut self, from: usize, to: usize) {
        if let Some(message) = self.sessions.get_mut(&(from, to)).and_then(VecDeque::pop_front) {
            assert!(self.nodes[to].on_message(id(from), message));
        }
    }

    fn finish_start(&mut self, fails: bool) {
        let Some((at, start)) = (!self.starting.is_empty()).then(|| self.starting.remove(0)) else { return };
        assert_eq!(start.entry, "open", "as it was asked for");
        if fails {
            return self.nodes[at].started(&start, Err("no".into()));
        }
        self.last += 1;
        let pid = format!("<{}.0.{}.1>", id(at), self.last).parse().unwrap();
        let is_second = self.living.iter().any(|(other, key)| other.node() == id(at) && *key == start.key);
        assert!(!is_second, "two processes of a key on one node");
        self.living.insert(pid, start.key.clone());
        self.nodes[at].started(&start, Ok(pid));
    }

    fn end(&mut self, pid: Pid) {
        self.living.remove(&pid);
        self.stopping.remove(&pid);
        self.nodes[pid.node().get() as usize - 1].ended(pid);
    }

    fn settle(&mut self, random: &mut Random) {
        for _ in 0..150 {
            // The rounds take longer in total than a question waits.
            self.now = self.now + Duration::from_millis(40);
            self.finish_start(false);
            if let Some(pid) = self.stopping.first().copied() {
                self.end(pid);
            }
            for at in 0..NODES {
                self.run(at, random);
                (0..NODES).for_each(|from| (0..4).for_each(|_| self.receive(from, at)));
            }
        }
    }
}

/// Keys are requested while nodes meet, part, start and end processes. No node ever has two processes of a key, and
/// each question is answered once. Once all nodes have met, all of them find the same process for each key. It is the
/// only process of that key, and runs on its home node.
#[test]
fn when_all_have_met_each_key_has_one_process() {
    let (mut moved, mut errors, mut second) = (0, 0, 0);
    for seed in 0..1_000 {
        let (mut random, mut world) = (Random::new(seed), World::new());
        for _ in 0..300 {
            let (at, other) = (random.below(NODES as u64) as usize, random.below(NODES as u64) as usize);
            let key = ["a", "b", "c"][random.below(3) as usize];
            match random.below(30) {
                0 if at != other => world.disconnect(at, other),
                1..3 if at != other => world.connect(at, other),
                3 => world.nodes[at].set_member(random.chance(50)),
                4..8 => world.ask(at, key),
                8..11 => world.finish_start(random.chance(20)),
                11 => {
                    let living: Vec<_> = world.living.keys().copied().collect();
                    if !living.is_empty() {
                        world.end(living[random.below(living.len() as u64) as usize]);
                    }
                }
                12 => world.now = world.now + Duration::from_millis(random.below(100)),
                13..20 => world.run(at, &mut random),
                _ => world.receive(other, at),
            }
            moved += u32::from(!world.stopping.is_empty());
            let keys: BTreeSet<_> = world.living.values().collect();
            second += u32::from(keys.len() < world.living.len());
        }
        world.nodes.iter_mut().for_each(|node| node.set_member(true));
        (0..NODES).for_each(|one| (0..one).for_each(|other| world.connect(one, other)));
        world.settle(&mut random);
        assert!(world.asked.is_empty(), "seed {seed}: a question has no answer");
        errors += world.found.drain(..).filter(|(_, result)| result.is_err()).count();
        for at in 0..NODES {
            ["a", "b", "c"].iter().for_each(|key| world.ask(at, key));
        }
        world.settle(&mut random);
        let mut pids = BTreeMap::new();
        assert_eq!(world.found.len(), 3 * NODES, "seed {seed}");
        for (key, result) in &world.found {
            let pid = result.clone().unwrap_or_else(|error| panic!("seed {seed}: {key}: {error}"));
            assert_eq!(*pids.entry(key.clone()).or_insert(pid), pid, "seed {seed}: {key} has two");
            assert_eq!(Some(pid.node()), home("Account", key, (1..NODES).map(id)), "seed {seed}");
        }
        assert_eq!(world.living.len(), 3, "seed {seed}: others were stopped");
        assert!(world.nodes.iter().all(|node| node.is_idle()));
    }
    assert!(moved > 1_000 && errors > 500 && second > 100, "{moved} moved, {errors} errors, {second} of two at once");
}

/// Returns the state of a node that exports the type, and the ID of another node that exports it, too.
fn two() -> (KeyedProcesses, NodeId) {
    let mut keys = KeyedProcesses::new(id(0), BTreeSet::from(["Account"]));
    keys.set_member(true);
    keys.connected(id(1), BTreeSet::from(["Account"]));
    (keys, id(1))
}

/// Returns a key whose home is `node`.
fn key_of(keys: &KeyedProcesses, node: NodeId) -> String {
    (0..).map(|key| format!("key-{key}")).find(|key| keys.home("Account", key) == Some(node)).unwrap()
}

#[test]
fn a_node_that_sees_another_home_for_a_key_starts_nothing() {
    let (mut keys, other) = two();
    let ask = |key| DirectoryMessage::AskKey { number: 7, process: "Account".into(), entry: "open".into(), key };
    let (here, there) = (key_of(&keys, id(0)), key_of(&keys, other));
    assert!(keys.on_message(other, ask(there)));
    assert_eq!(keys.poll_start(), None);
    let moved = DirectoryMessage::NoKey { number: 7, refusal: KeyRefusal::Moved };
    assert_eq!(keys.poll_message(other), Some(moved));
    assert!(keys.on_message(other, ask(here.clone())));
    assert_eq!(keys.poll_start().map(|start| start.key), Some(here));
}

/// If the node that was asked is lost, the next home is asked before the question's deadline.
#[test]
fn a_question_to_a_node_that_is_lost_is_asked_elsewhere() {
    let (mut keys, other) = two();
    let key = key_of(&keys, other);
    let number = keys.ask(Moment::START, "Account", "open", &key);
    assert!(matches!(keys.poll_message(other), Some(DirectoryMessage::AskKey { .. })));
    keys.disconnected(other);
    let next = keys.next_timeout().unwrap();
    assert!(next < Moment::START + Duration::from_secs(1), "it is asked again soon");
    keys.handle_timeout(next);
    let start = keys.poll_start().expect("it is at home here now");
    let pid = "<1.0.5.1>".parse().unwrap();
    keys.started(&start, Ok(pid));
    assert_eq!(keys.poll_found(), Some(Found { number, result: Ok(pid) }));
}

/// A node that was not asked cannot answer a question.
#[test]
fn only_the_node_that_was_asked_answers() {
    let (mut keys, other) = two();
    keys.connected(id(2), BTreeSet::new());
    let key = key_of(&keys, other);
    let number = keys.ask(Moment::START, "Account", "open", &key);
    let pid = |at| format!("<{}.0.5.1>", id(at)).parse::<Pid>().unwrap();
    assert!(keys.on_message(id(2), DirectoryMessage::KeyAt { number, pid: pid(2) }));
    assert!(!keys.on_message(other, DirectoryMessage::KeyAt { number, pid: pid(2) }), "not its own process");
    assert_eq!(keys.poll_found(), None);
    assert!(keys.on_message(other, DirectoryMessage::KeyAt { number, pid: pid(1) }));
    assert_eq!(keys.poll_found(), Some(Found { number, result: Ok(pid(1)) }));
}

#[test]
fn what_cannot_be_asked_for_is_refused() {
    let mut keys = KeyedProcesses::new(id(0), BTreeSet::from(["Account"]));
    let now = Moment::START;
    let ask = |keys: &mut KeyedProcesses, process: &str, key: &str| {
        let number = keys.ask(now, process, "open", key);
        let found = keys.poll_found().filter(|found| found.number == number);
        found.map(|found| found.result.unwrap_err())
    };
    assert_eq!(ask(&mut keys, "Account", "a"), Some(KeyedError::NotAMember));
    keys.set_member(true);
    for key in [String::new(), "x".repeat(MAX_NAME + 1)] {
        assert_eq!(ask(&mut keys, "Account", &key), Some(KeyedError::Length { bytes: key.len() }));
    }
    assert_eq!(ask(&mut keys, "Teller", "a"), Some(KeyedError::NotExported { process: "Teller".into() }));
    assert_eq!(ask(&mut keys, "Account", "a"), None);
    let start = keys.poll_start().unwrap();
    keys.started(&start, Err("no entry `open`".into()));
    let failed = KeyedError::Failed { reason: "no entry `open`".into() };
    assert_eq!(keys.poll_found().unwrap().result, Err(failed));
    // The start of this process is never answered.
    assert_eq!(ask(&mut keys, "Account", "a"), None);
    keys.handle_timeout(keys.next_timeout().unwrap());
    assert_eq!(keys.poll_found().unwrap().result, Err(KeyedError::Timeout));
}

/// Starts the processes of `count` keys. This node is the home of all of them.
fn run_all(keys: &mut KeyedProcesses, count: u64) {
    for number in 0..count {
        keys.ask(Moment::START, "Account", "open", &format!("key-{number}"));
        let start = keys.poll_start().expect("it is at home here");
        keys.started(&start, Ok(format!("<1.0.{number}.1>").parse().unwrap()));
        assert!(keys.poll_found().is_some_and(|found| found.result.is_ok()));
    }
}

/// A new node is compared with the home of each key, not with all other nodes. (In an earlier version, each key was
/// compared with each of the peers.)
#[test]
fn a_node_that_comes_costs_two_weights_for_each_key() {
    let mut keys = KeyedProcesses::new(id(0), BTreeSet::from(["Account"]));
    keys.set_member(true);
    run_all(&mut keys, 10_000);
    let mut running: BTreeSet<_> = (0..10_000).map(|number| format!("key-{number}")).collect();
    for peer in 1..=50 {
        let before = rendezvous::WEIGHTS.get();
        keys.connected(id(peer), BTreeSet::from(["Account"]));
        assert_eq!(rendezvous::WEIGHTS.get() - before, 2 * running.len() as u64);
        running.retain(|key| home("Account", key, (0..=peer).map(id)) == Some(id(0)));
        let stopping: BTreeSet<_> = keys.stopping().collect();
        assert_eq!(stopping.len() + running.len(), 10_000, "with {peer} peers");
        assert!(running.iter().all(|key| !stopping.contains(key.as_str())), "with {peer} peers");
    }
    assert!(running.len() < 1_000, "{} stay", running.len());
    let before = rendezvous::WEIGHTS.get();
    keys.connected(id(60), BTreeSet::from(["Teller"]));
    assert_eq!(rendezvous::WEIGHTS.get(), before, "it exports another type");
}

/// A peer asks but takes no answers. What is kept for it is limited: at the limit, its session ends.
#[test]
fn answers_that_are_not_taken_have_a_limit() {
    let (mut keys, other) = two();
    let key = key_of(&keys, id(0));
    let ask =
        |number| DirectoryMessage::AskKey { number, process: "Account".into(), entry: "open".into(), key: key.clone() };
    assert!(keys.on_message(other, ask(0)));
    let start = keys.poll_start().unwrap();
    keys.started(&start, Err("x".repeat(1 << 20)));
    let taken = keys.poll_message(other);
    let Some(DirectoryMessage::NoKey { refusal: KeyRefusal::Failed(reason), .. }) = taken else { panic!("{taken:?}") };
    assert!(reason.len() <= 4_096, "{} bytes of text", reason.len());
    for reason in ["x".repeat(1 << 20), String::new()] {
        let mut asked = 0;
        while keys.poll_flood().is_none() {
            asked += 1;
            assert!(keys.on_message(other, ask(asked)));
            if let Some(start) = keys.poll_start() {
                keys.started(&start, Err(reason.clone()));
            }
            assert!(asked < 1_000_000, "there is no limit");
        }
        let size = 4_096.min(reason.len()) + size_of::<DirectoryMessage>();
        assert_eq!(asked as usize, MAX_ANSWERS / size + 1);
        // In the next session there is room again.
        keys.disconnected(other);
        keys.connected(other, BTreeSet::from(["Account"]));
        assert!(keys.poll_message(other).is_none() && keys.on_message(other, ask(0)));
        let start = keys.poll_start().unwrap();
        keys.started(&start, Err(reason));
        assert!(keys.poll_message(other).is_some() && keys.poll_flood().is_none());
    }
}

/// A question that is given up before there was room to send it is never sent.
#[test]
fn what_was_given_up_is_not_asked() {
    let (mut keys, other) = two();
    let key = key_of(&keys, other);
    keys.ask(Moment::START, "Account", "open", &key);
    assert!(keys.has_message(other));
    let refused = keys.poll_message(other).unwrap();
    keys.refused(other, refused.clone());
    assert_eq!(keys.poll_message(other), Some(refused.clone()));
    keys.refused(other, refused.clone());
    keys.handle_timeout(keys.next_timeout().unwrap());
    assert_eq!(keys.poll_found().unwrap().result, Err(KeyedError::Timeout));
    assert!(!keys.has_message(other) && keys.poll_message(other).is_none());
    keys.refused(other, refused);
    assert!(!keys.has_message(other));
}

/// A node that has just joined knows of a member before it has a session with it.
///
/// Catches: a second process of a key that already has one on that member.
#[test]
fn a_key_that_may_be_at_home_with_a_member_that_was_not_met_waits_for_the_meeting() {
    let (known, other) = two();
    let (here, there) = (key_of(&known, id(0)), key_of(&known, other));
    let fresh = || {
        let mut keys = KeyedProcesses::new(id(0), BTreeSet::from(["Account"]));
        keys.set_member(true);
        keys.set_members(&BTreeMap::from([(other, Revision(7))]));
        keys
    };
    let mut keys = fresh();
    keys.ask(Moment::START, "Account", "open", &here);
    assert!(keys.poll_start().is_some(), "at home here, whatever the other exports");
    let number = keys.ask(Moment::START, "Account", "open", &there);
    assert_eq!((keys.poll_start(), keys.poll_found()), (None, None));
    keys.connected(other, BTreeSet::from(["Account"]));
    keys.handle_timeout(keys.next_timeout().unwrap());
    assert!(
        matches!(keys.poll_message(other), Some(DirectoryMessage::AskKey { number: asked, .. }) if asked == number)
    );

    // A type that the other node may export is not refused either.
    let mut keys = fresh();
    let number = keys.ask(Moment::START, "Teller", "open", "a");
    assert_eq!(keys.poll_found(), None);
    keys.connected(other, BTreeSet::from(["Teller"]));
    keys.handle_timeout(keys.next_timeout().unwrap());
    assert!(
        matches!(keys.poll_message(other), Some(DirectoryMessage::AskKey { number: asked, .. }) if asked == number)
    );

    // A member that cannot be reached delays the key only for a while. A member that is lost does not delay it at all.
    let mut keys = fresh();
    keys.ask(Moment::START, "Account", "open", &there);
    let mut now = Moment::START;
    while keys.poll_start().is_none() {
        assert_eq!(keys.poll_found(), None, "it is given up");
        now = keys.next_timeout().unwrap();
        keys.handle_timeout(now);
    }
    assert!(now >= Moment::START + Duration::from_secs(1), "{now:?}");
    let mut keys = fresh();
    keys.ask(Moment::START, "Account", "open", &there);
    keys.set_members(&BTreeMap::new());
    keys.handle_timeout(keys.next_timeout().unwrap());
    assert!(keys.poll_start().is_some());

    // A member that was met, but is out of reach now, delays nothing. A node that joins again has to meet all members
    // again.
    let mut keys = fresh();
    keys.connected(other, BTreeSet::from(["Account"]));
    keys.disconnected(other);
    keys.ask(Moment::START, "Account", "open", &there);
    assert!(keys.poll_start().is_some(), "it was met, and is out of reach");
    keys.set_member(false);
    keys.set_member(true);
    keys.set_members(&BTreeMap::from([(other, Revision(7))]));
    let another = (0..).map(|n| format!("other-{n}")).find(|key| known.home("Account", key) == Some(other)).unwrap();
    keys.ask(Moment::START, "Account", "open", &another);
    assert_eq!(keys.poll_start(), None);
}
