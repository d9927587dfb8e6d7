//! Tests of the names of several nodes that share one store. The store's answers are delayed or lost.

use super::*;
use crate::access::{Access, Answer};
use crate::clock::Moment;
use crate::engine::{Engine, Subscription};
use crate::memory::{Broker, Client};
use crate::random::Random;
use crate::store::{Bucket, Change, Entry, Revision, StoreError};
use postroom::{NodeId, Pid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

enum Input {
    Answered(u64, Answer),
    Changed(Change),
}

struct Node {
    id: NodeId,
    epoch: Revision,
    client: Client,
    inbox: Arc<Mutex<VecDeque<Input>>>,
    _watch: Subscription,
    names: Names,
    /// Registrations that have not been answered.
    asked: BTreeMap<u64, (String, Pid)>,
    /// The names that are held by processes of this node which may still act.
    holds: BTreeMap<String, (Pid, Token)>,
    /// Percentage of answers that are lost.
    loss: u64,
    now: Moment,
}

impl Node {
    fn new(broker: &Broker, number: u64) -> Self {
        let (client, inbox) = (broker.connect(), Arc::new(Mutex::new(VecDeque::new())));
        let changes = Arc::clone(&inbox);
        let on_change = Box::new(move |change| changes.lock().unwrap().push_back(Input::Changed(change)));
        let watch = client.watch(Bucket::Names, None, on_change).unwrap();
        let mut names = Names::default();
        names.joined(Revision(number));
        let id = NodeId::new(number).unwrap();
        let (asked, holds) = (BTreeMap::new(), BTreeMap::new());
        Self {
            id,
            epoch: Revision(number),
            client,
            inbox,
            _watch: watch,
            names,
            asked,
            holds,
            loss: 0,
            now: Moment::START,
        }
    }

    fn pid(&self, slot: u64) -> Pid {
        format!("<{}.0.{slot}.1>", self.id).parse().unwrap()
    }

    fn register(&mut self, name: &str, pid: Pid) {
        let number = self.names.register(name, pid);
        assert!(self.asked.insert(number, (name.to_owned(), pid)).is_none());
    }

    /// Handles all inputs, and returns the results of registrations.
    fn run(&mut self, random: &mut Random) -> Vec<Result<Token, RegisterError>> {
        loop {
            let input = self.inbox.lock().unwrap().pop_front();
            match input {
                Some(Input::Answered(number, answer)) => self.names.handle(self.now, number, answer),
                Some(Input::Changed(change)) => self.names.on_change(change),
                None => break,
            }
        }
        self.now = self.now + Duration::from_millis(100);
        self.names.handle_timeout(self.now);
        while let Some(request) = self.names.poll_request() {
            let (inbox, is_lost) = (Arc::clone(&self.inbox), random.chance(self.loss));
            let then = move |answer| {
                let answer = match answer {
                    Answer::Written(_) if is_lost => Answer::Written(Err(StoreError::Unknown)),
                    answer => answer,
                };
                inbox.lock().unwrap().push_back(Input::Answered(request.number, answer));
            };
            request.access.perform(&self.client, Bucket::Names, &request.key, then);
        }
        let mut answers = Vec::new();
        while let Some(Registered { number, result, .. }) = self.names.poll_registered() {
            let (name, pid) = self.asked.remove(&number).expect("answered once");
            if let Ok(token) = result {
                self.holds.insert(name, (pid, token));
            }
            answers.push(result);
        }
        answers
    }
}

fn settle(broker: &Broker, nodes: &mut [Node], random: &mut Random) -> Vec<Result<Token, RegisterError>> {
    let mut answers = Vec::new();
    loop {
        nodes.iter_mut().for_each(|node| answers.extend(node.run(random)));
        if !broker.step() && nodes.iter().all(|node| node.names.next_timeout().is_none()) {
            return answers;
        }
    }
}

#[test]
fn of_many_that_register_a_name_one_gets_it_and_the_others_learn_who() {
    let (broker, mut random) = (Broker::new(), Random::new(1));
    let mut nodes: Vec<_> = (1..=16).map(|number| Node::new(&broker, number)).collect();
    for node in &mut nodes {
        node.register("acct-7", node.pid(5));
    }
    let answers = settle(&broker, &mut nodes, &mut random);
    let holder = nodes.iter().find_map(|node| node.holds.get("acct-7")).unwrap().0;
    assert_eq!((answers.len(), answers.iter().filter(|answer| answer.is_ok()).count()), (16, 1));
    let taken = RegisterError::Taken { name: "acct-7".into(), holder };
    assert_eq!(answers.iter().filter(|answer| **answer == Err(taken.clone())).count(), 15);
    assert!(nodes.iter().all(|node| node.names.holder("acct-7").map(|(pid, _)| pid) == Some(holder)));
}

#[test]
fn a_name_is_free_when_its_process_has_ended_and_the_next_token_is_greater() {
    let (broker, mut random) = (Broker::new(), Random::new(1));
    let mut nodes = [Node::new(&broker, 1), Node::new(&broker, 2)];
    let (first, second) = (nodes[0].pid(5), nodes[1].pid(5));
    nodes[0].register("acct-7", first);
    let answers = settle(&broker, &mut nodes, &mut random);
    let token = answers[0].clone().unwrap();
    assert!(!nodes[0].names.release("acct-7", second) && !nodes[0].names.release("acct", first));
    nodes[0].names.ended(second);
    nodes[0].names.ended(first);
    settle(&broker, &mut nodes, &mut random);
    assert_eq!(nodes[1].names.holder("acct-7"), None);
    nodes[1].register("acct-7", second);
    let answers = settle(&broker, &mut nodes, &mut random);
    assert!(answers[0].clone().unwrap() > token);
}

/// The answer to the creation is lost. The node then reads the entry, and finds that the entry is its own.
#[test]
fn a_registration_whose_answer_was_lost_finds_itself() {
    let (broker, mut random) = (Broker::new(), Random::new(1));
    let mut nodes = [Node::new(&broker, 1)];
    nodes[0].loss = 100;
    nodes[0].register("acct-7", nodes[0].pid(5));
    assert!(settle(&broker, &mut nodes, &mut random)[0].is_ok());
}

#[test]
fn the_names_of_a_lost_node_stay_until_its_lease_is_over_and_a_late_one_goes_too() {
    let (broker, mut random) = (Broker::new(), Random::new(1));
    let mut nodes = [Node::new(&broker, 1), Node::new(&broker, 2), Node::new(&broker, 3)];
    let pid = nodes[0].pid(5);
    nodes[0].register("early", pid);
    settle(&broker, &mut nodes, &mut random);
    nodes[1].register("early", nodes[1].pid(5));
    assert!(matches!(settle(&broker, &mut nodes, &mut random)[..], [Err(RegisterError::Taken { .. })]));
    // A registration of the lost node arrives after its lease was over. The entry is deleted as soon as it appears.
    nodes[0].register("late", pid);
    let (lost, epoch) = (nodes[0].id, nodes[0].epoch);
    nodes[1..].iter_mut().for_each(|node| node.names.membership_over(lost, epoch));
    settle(&broker, &mut nodes, &mut random);
    for name in ["early", "late"] {
        nodes[1].register(name, nodes[1].pid(6));
        assert!(settle(&broker, &mut nodes, &mut random)[0].is_ok(), "{name}");
    }
    // Another membership of the same node is not over.
    nodes[0].names.fenced();
    nodes[0].names.joined(Revision(99));
    nodes[0].register("again", pid);
    assert!(settle(&broker, &mut nodes, &mut random)[0].is_ok());
    assert!(nodes[1].names.holder("again").is_some());
}

#[test]
fn a_node_that_is_fenced_learns_which_of_its_processes_must_end() {
    let (broker, mut random) = (Broker::new(), Random::new(1));
    let mut nodes = [Node::new(&broker, 1)];
    let (first, second) = (nodes[0].pid(1), nodes[0].pid(2));
    for (name, pid) in [("a", first), ("b", first), ("c", second)] {
        nodes[0].register(name, pid);
    }
    settle(&broker, &mut nodes, &mut random);
    // This registration is answered too late, so its process does not get the name.
    nodes[0].register("d", second);
    nodes[0].run(&mut random);
    assert_eq!(nodes[0].names.fenced(), BTreeSet::from([first, second]));
    assert_eq!(settle(&broker, &mut nodes, &mut random), [Err(RegisterError::NotAMember)]);
    assert_eq!(nodes[0].names.holder("d"), None);
    nodes[0].register("e", second);
    assert_eq!(settle(&broker, &mut nodes, &mut random), [Err(RegisterError::NotAMember)]);
}

/// Catches: a registration that is reported as not performed, although only its answer was lost when its node left.
#[test]
fn a_node_that_leaves_does_not_know_what_the_store_has_not_answered() {
    let (broker, mut random) = (Broker::new(), Random::new(1));
    let mut nodes = [Node::new(&broker, 1), Node::new(&broker, 2)];
    nodes[0].register("a", nodes[0].pid(1));
    nodes[0].register("a", nodes[0].pid(2));
    nodes[0].run(&mut random);
    nodes[0].names.leave();
    nodes[0].names.give_up();
    let results: Vec<_> = std::iter::from_fn(|| nodes[0].names.poll_registered()).map(|answer| answer.result).collect();
    assert_eq!(results, [Err(RegisterError::Unknown { name: "a".into() }), Err(RegisterError::NotAMember)]);
    assert!(nodes[0].names.is_idle());
    settle(&broker, &mut nodes, &mut random);
    assert_eq!(nodes[1].names.holder("a").map(|(pid, _)| pid), Some(nodes[0].pid(1)), "it was made");
}

#[test]
fn names_without_bytes_or_with_too_many_are_refused() {
    let (broker, mut random) = (Broker::new(), Random::new(1));
    let mut nodes = [Node::new(&broker, 1)];
    for name in [String::new(), "x".repeat(MAX_NAME + 1)] {
        nodes[0].register(&name, nodes[0].pid(1));
        let answers = settle(&broker, &mut nodes, &mut random);
        assert_eq!(answers, [Err(RegisterError::Length { bytes: name.len() })]);
    }
    nodes[0].register(&"x".repeat(MAX_NAME), nodes[0].pid(1));
    assert!(settle(&broker, &mut nodes, &mut random)[0].is_ok());
}

/// Three nodes register, release, end and fence at random, over a store whose answers get lost. A name never has two
/// holders whose nodes are members, and its tokens only grow.
#[test]
fn a_name_never_has_two_holders() {
    let (mut taken, mut passed_on) = (0, 0);
    for seed in 0..1_000 {
        let (broker, mut random) = (Broker::new(), Random::new(seed));
        let mut nodes: Vec<_> = (1..=3).map(|number| Node::new(&broker, number)).collect();
        nodes.iter_mut().for_each(|node| node.loss = 30);
        let (mut greatest, mut epoch) = (BTreeMap::<String, Token>::new(), 100);
        for _ in 0..200 {
            let at = random.below(3) as usize;
            let (name, slot) = (["a", "b"][random.below(2) as usize], random.below(2));
            match random.below(40) {
                0..8 => {
                    let pid = nodes[at].pid(slot);
                    nodes[at].register(name, pid);
                }
                8 => {
                    let pid = nodes[at].pid(slot);
                    if nodes[at].names.release(name, pid) {
                        nodes[at].holds.remove(name);
                    }
                }
                9 => {
                    let pid = nodes[at].pid(slot);
                    nodes[at].names.ended(pid);
                    nodes[at].holds.retain(|_, (holder, _)| *holder != pid);
                }
                10 => {
                    // The holders end first, then the lease is over.
                    let held: BTreeSet<_> = nodes[at].holds.values().map(|(pid, _)| *pid).collect();
                    assert!(nodes[at].names.fenced().is_superset(&held), "each holder is told");
                    nodes[at].holds.clear();
                    let (lost, over) = (nodes[at].id, nodes[at].epoch);
                    (0..3).filter(|&other| other != at).for_each(|other| {
                        nodes[other].names.membership_over(lost, over);
                    });
                    epoch += 1;
                    nodes[at].epoch = Revision(epoch);
                    nodes[at].names.joined(Revision(epoch));
                }
                11..26 => _ = broker.step(),
                _ => {
                    for answer in nodes[at].run(&mut random) {
                        taken += u32::from(matches!(answer, Err(RegisterError::Taken { .. })));
                    }
                }
            }
            for name in ["a", "b"] {
                let holders: Vec<_> = nodes.iter().filter_map(|node| node.holds.get(name)).collect();
                assert!(holders.len() <= 1, "seed {seed}: {name} is held by {holders:?}");
                if let Some((_, token)) = holders.first() {
                    let before = greatest.insert(name.into(), *token);
                    assert!(before.is_none_or(|before| before <= *token), "seed {seed}: {name} has an old token");
                    passed_on += u32::from(before.is_some_and(|before| before < *token));
                }
            }
        }
        settle(&broker, &mut nodes, &mut random);
        assert!(nodes.iter().all(|node| node.asked.is_empty()), "seed {seed}: a registration has no answer");
        // At rest all nodes agree on the holders of all held names.
        for node in &nodes {
            for (name, (pid, token)) in &node.holds {
                for other in &nodes {
                    assert_eq!(
                        other.names.holder(name),
                        Some((*pid, *token)),
                        "seed {seed}: {name}, node {}",
                        other.id
                    );
                }
            }
        }
    }
    assert!(taken > 1_000 && passed_on > 300, "{taken} taken, {passed_on} passed on");
}

fn entry(key: &str, revision: u64, value: bytes::Bytes) -> crate::store::Entry {
    crate::store::Entry { key: key.into(), value, revision: Revision(revision) }
}

fn record(name: &str, node: u64, epoch: u64) -> bytes::Bytes {
    let pid = format!("<{node}.0.5.1>").parse().unwrap();
    super::record::encode(name, &Holder { pid, epoch: Revision(epoch) })
}

fn put(name: &str, revision: u64, node: u64, epoch: u64) -> Change {
    Change::Put(entry(&super::record::key(name), revision, record(name, node, epoch)))
}

fn token(names: &Names, name: &str) -> Option<u64> {
    names.holder(name).map(|(_, token)| token.0)
}

/// A watch that starts over may repeat known reports, or report a snapshot that is older than they are.
#[test]
fn what_a_watch_reports_late_takes_nothing_back() {
    let mut names = Names::default();
    names.on_change(put("a", 7, 1, 1));
    names.on_change(put("a", 5, 2, 2));
    names.on_change(Change::Deleted { key: "a".into(), revision: Revision(6) });
    assert_eq!(token(&names, "a"), Some(7));
    names.on_change(put("b", 3, 1, 1));
    names.on_change(put("c", 9, 1, 1));
    names.on_change(Change::Resync);
    names.on_change(put("a", 7, 1, 1));
    names.on_change(Change::Synced { revision: Revision(8) });
    assert_eq!((token(&names, "a"), token(&names, "b"), token(&names, "c")), (Some(7), None, Some(9)));
    assert_eq!(names.iter().count(), 2);
    names.on_change(Change::Deleted { key: "a".into(), revision: Revision(10) });
    names.on_change(Change::Put(entry("c", 11, "no record".into())));
    assert_eq!(names.iter().count(), 0);
}

#[test]
fn a_deletion_that_the_store_could_not_do_is_repeated() {
    let (mut names, now) = (Names::default(), Moment::START);
    names.joined(Revision(1));
    let pid = "<1.0.5.1>".parse().unwrap();
    names.register("a", pid);
    let number = names.poll_request().unwrap().number;
    names.handle(now, number, Answer::Written(Ok(Revision(2))));
    names.ended(pid);
    for error in [StoreError::Unavailable, StoreError::Unknown] {
        let request = names.poll_request().unwrap();
        assert_eq!(request.access, Access::Delete(Revision(2)));
        names.handle(now, request.number, Answer::Written(Err(error)));
        assert_eq!(names.poll_request(), None);
        let again = names.next_timeout().unwrap();
        names.handle_timeout(now);
        assert_eq!(names.poll_request(), None, "not yet");
        names.handle_timeout(again);
    }
    let request = names.poll_request().unwrap();
    names.handle(now, request.number, Answer::Written(Err(StoreError::Conflict { key: "a".into() })));
    assert_eq!((names.poll_request(), names.next_timeout()), (None, None));
}

/// Without a majority of the servers there are no new names: the registration is refused, and no request is repeated.
#[test]
fn without_a_store_a_registration_is_refused_and_does_not_wait() {
    let mut names = Names::default();
    names.joined(Revision(1));
    let number = names.register("a", "<1.0.5.1>".parse().unwrap());
    let request = names.poll_request().unwrap();
    assert!(matches!(request.access, Access::Create(_)));
    names.handle(Moment::START, request.number, Answer::Written(Err(StoreError::Unavailable)));
    let answer = names.poll_registered().unwrap();
    assert_eq!((answer.number, answer.result), (number, Err(RegisterError::Unavailable { name: "a".into() })));
    assert_eq!((names.poll_request(), names.next_timeout()), (None, None));
    assert_eq!(names.holder("a"), None);
}

/// Two long names may have the same key. Then the holder of one is not taken for the holder of the other.
#[test]
fn the_holder_of_another_name_with_the_same_key_is_no_holder_of_this() {
    let mut names = Names::default();
    names.joined(Revision(1));
    let pid: Pid = "<1.0.5.1>".parse().unwrap();
    names.register("a", pid);
    let request = names.poll_request().unwrap();
    names.handle(Moment::START, request.number, Answer::Written(Err(StoreError::Conflict { key: "a".into() })));
    let request = names.poll_request().unwrap();
    assert_eq!(request.access, Access::Get);
    let found = entry("a", 4, record("another", 1, 1));
    names.handle(Moment::START, request.number, Answer::Read(Ok(Some(found.clone()))));
    let taken = RegisterError::Taken { name: "a".into(), holder: pid };
    assert_eq!(names.poll_registered().unwrap().result, Err(taken));
    names.on_change(Change::Put(found));
    assert_eq!(names.holder("a"), None);
}

#[test]
fn the_names_of_a_later_membership_stay() {
    let mut names = Names::default();
    names.on_change(put("a", 7, 1, 30));
    names.membership_over(NodeId::new(1).unwrap(), Revision(29));
    names.membership_over(NodeId::new(2).unwrap(), Revision(30));
    assert_eq!(names.poll_request(), None);
    names.membership_over(NodeId::new(1).unwrap(), Revision(30));
    assert_eq!(names.poll_request().unwrap().access, Access::Delete(Revision(7)));
}

/// A holder whose entry disappears must end: the store may have been replaced by one in which the name is free.
#[test]
fn a_holder_whose_entry_is_gone_is_told() {
    let holder = |names: &mut Names, at: u64| {
        let pid: Pid = "<7f.0.5.1>".parse().unwrap();
        names.register("acct-7", pid);
        let number = names.poll_request().unwrap().number;
        names.handle(Moment::START, number, Answer::Written(Ok(Revision(at))));
        assert_eq!(names.poll_registered().unwrap().result, Ok(Token(at)));
        pid
    };
    let entry = |epoch, at| {
        let holder = Holder { pid: "<21.0.5.1>".parse().unwrap(), epoch: Revision(epoch) };
        let value = super::record::encode("acct-7", &holder);
        Change::Put(crate::store::Entry { key: "acct-7".into(), value, revision: Revision(at) })
    };
    let deleted = |at| Change::Deleted { key: "acct-7".into(), revision: Revision(at) };
    let synced = |at| Change::Synced { revision: Revision(at) };
    // The reports of the watch, and whether the holder loses the name because of them.
    let cases = [
        (vec![deleted(80)], false, "an earlier entry was deleted"),
        (vec![Change::Resync, synced(80)], false, "the snapshot is older"),
        (vec![Change::Resync, deleted(82)], true, "it was deleted"),
        (vec![Change::Resync, synced(81)], true, "a snapshot does not have it"),
        (vec![Change::Resync, synced(1_000_000)], true, "the store is another, and empty"),
        (vec![Change::Resync, entry(9, 1_000_000), synced(1_000_000)], true, "another has the name in another store"),
        (vec![entry(9, 82)], true, "another has the name"),
    ];
    for (changes, is_lost, what) in cases {
        let mut names = Names::default();
        names.joined(Revision(4));
        let pid = holder(&mut names, 81);
        changes.into_iter().for_each(|change| names.on_change(change));
        assert_eq!(names.poll_lost(), is_lost.then_some(pid), "{what}");
        assert_eq!(names.holder("acct-7").is_some_and(|(holder, _)| holder == pid), !is_lost, "{what}");
        assert_eq!(names.poll_lost(), None);
    }
}

/// Returns one node's names without a store, and the pending request of its only registration.
fn asking() -> (Names, Pid, NameRequest) {
    let mut names = Names::default();
    names.joined(Revision(4));
    let pid = "<7f.0.5.1>".parse().unwrap();
    names.register("acct-7", pid);
    let request = names.poll_request().unwrap();
    (names, pid, request)
}

/// Catches: trusting an answer that arrives after the watch has reported a later change of the entry.
#[test]
fn an_answer_that_comes_after_a_later_change_holds_nothing() {
    let entry = |key: &str, pid, revision| {
        let value = record::encode("acct-7", &Holder { pid, epoch: Revision(4) });
        Entry { key: key.into(), value, revision: Revision(revision) }
    };
    let other = "<9.0.5.1>".parse().unwrap();
    for case in ["deleted", "another's", "not in a snapshot", "its own", "deleted before"] {
        let (mut names, pid, NameRequest { number, key, .. }) = asking();
        let changes = match case {
            "deleted" => vec![Change::Deleted { key, revision: Revision(22) }],
            "another's" => vec![Change::Put(entry(&key, other, 23))],
            "not in a snapshot" => vec![Change::Resync, Change::Synced { revision: Revision(21) }],
            "its own" => vec![Change::Put(entry(&key, pid, 21)), Change::Synced { revision: Revision(21) }],
            _ => vec![Change::Deleted { key, revision: Revision(20) }],
        };
        changes.into_iter().for_each(|change| names.on_change(change));
        names.handle(Moment::START, number, Answer::Written(Ok(Revision(21))));
        assert_eq!(names.poll_registered().unwrap().result, Ok(Token(21)), "{case}");
        let is_there = matches!(case, "its own" | "deleted before");
        assert_eq!(names.holder("acct-7").is_some_and(|(holder, _)| holder == pid), is_there, "{case}");
        assert_eq!(names.poll_lost(), (!is_there).then_some(pid), "{case}");
    }
}

/// Catches: a name that stays taken because the store has refused its deletion once.
#[test]
fn a_deletion_that_is_refused_is_repeated() {
    let key = || "k".to_owned();
    for (error, is_repeated) in [
        (StoreError::Unavailable, true),
        (StoreError::Unknown, true),
        (StoreError::Full { key: key() }, true),
        (StoreError::Forbidden { key: key() }, true),
        (StoreError::Conflict { key: key() }, false),
        (StoreError::Closed, false),
    ] {
        let (mut names, pid, NameRequest { number, .. }) = asking();
        names.handle(Moment::START, number, Answer::Written(Ok(Revision(21))));
        names.ended(pid);
        let deletion = names.poll_request().unwrap();
        assert_eq!(deletion.access, Access::Delete(Revision(21)));
        names.handle(Moment::START, deletion.number, Answer::Written(Err(error.clone())));
        assert_eq!(names.next_timeout().is_some(), is_repeated, "{error:?}");
        assert_eq!(names.is_idle(), !is_repeated, "{error:?}");
        if let Some(at) = names.next_timeout() {
            names.handle_timeout(at);
            assert_eq!(names.poll_request().map(|request| request.access), Some(Access::Delete(Revision(21))));
        }
    }
}
