//! Tests of the groups of several nodes that share one store. Its answers are late or lost, and sessions begin and end
//! at random.

use super::*;
use crate::access::Answer;
use crate::clock::Moment;
use crate::directory::message::DirectoryMessage;
use crate::engine::{Engine, Subscription};
use crate::memory::{Broker, Client};
use crate::random::Random;
use crate::store::{Bucket, Change, Entry, Revision, StoreError};
use postroom::{ExitReason, GroupEvent, NodeId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const GROUPS: [&str; 2] = ["a", "b"];

enum Input {
    Answered(u64, Answer),
    Changed(Change),
}

struct Node {
    id: NodeId,
    epoch: Option<Revision>,
    client: Client,
    inbox: Arc<Mutex<VecDeque<Input>>>,
    _watch: Subscription,
    groups: Groups,
    /// How many times each process has joined each group.
    joined: BTreeMap<(String, Pid), u32>,
    /// The members that each subscriber knows from its events.
    believes: BTreeMap<(String, Pid), BTreeSet<Pid>>,
    asked: BTreeMap<u64, String>,
    listed: BTreeMap<String, Vec<Pid>>,
    answers: u32,
    /// Percentage of answers that are lost, and of messages and events that are refused.
    loss: u64,
}

impl Node {
    fn new(broker: &Broker, number: u64) -> Self {
        let (client, inbox) = (broker.connect(), Arc::new(Mutex::new(VecDeque::new())));
        let changes = Arc::clone(&inbox);
        let on_change = Box::new(move |change| changes.lock().unwrap().push_back(Input::Changed(change)));
        let watch = client.watch(Bucket::Groups, None, on_change).unwrap();
        let id = NodeId::new(number).unwrap();
        Self {
            id,
            epoch: Some(Revision(number)),
            client,
            inbox,
            _watch: watch,
            groups: Groups::new(id),
            joined: BTreeMap::new(),
            believes: BTreeMap::new(),
            asked: BTreeMap::new(),
            listed: BTreeMap::new(),
            answers: 0,
            loss: 0,
        }
    }

    fn pid(&self, slot: u64) -> Pid {
        format!("<{}.0.{slot}.1>", self.id).parse().unwrap()
    }

    fn members(&self, group: &str) -> BTreeSet<Pid> {
        self.joined.keys().filter(|(of, _)| of == group).map(|(_, pid)| *pid).collect()
    }

    fn forget(&mut self, pid: Pid) {
        self.joined.retain(|(_, of), _| *of != pid);
        self.believes.retain(|(_, of), _| *of != pid);
    }

    fn run(&mut self, now: Moment, random: &mut Random) {
        loop {
            let input = self.inbox.lock().unwrap().pop_front();
            match input {
                Some(Input::Answered(number, answer)) => self.groups.handle(now, number, answer),
                Some(Input::Changed(change)) => self.groups.on_change(change),
                None => break,
            }
        }
        self.groups.handle_timeout(now);
        while let Some(request) = self.groups.poll_request() {
            let (inbox, fate) = (Arc::clone(&self.inbox), random.chance(self.loss).then(|| random.below(3)));
            let answered = move |answer| inbox.lock().unwrap().push_back(Input::Answered(request.number, answer));
            if fate == Some(0) {
                answered(Answer::Written(Err(StoreError::Unavailable)));
                continue;
            }
            let is_lost = fate == Some(1);
            let then = move |answer| match answer {
                Answer::Written(_) if is_lost => answered(Answer::Written(Err(StoreError::Unknown))),
                answer => answered(answer),
            };
            request.access.perform(&self.client, Bucket::Groups, &request.key, then);
        }
        while let Some((subscriber, events)) = self.groups.poll_events() {
            let room = if random.chance(self.loss) { random.below(3) as usize } else { events.len() };
            let refused = events[room.min(events.len())..].to_vec();
            for (_, event) in &events[..events.len() - refused.len()] {
                self.hear(subscriber, event);
            }
            self.groups.told(now, subscriber, refused);
        }
        while let Some(Listed { number, members }) = self.groups.poll_listed() {
            let group = self.asked.remove(&number).expect("answered once");
            self.listed.insert(group, members);
            self.answers += 1;
        }
    }

    fn hear(&mut self, subscriber: Pid, event: &GroupEvent) {
        let (group, pid, joins) = match event {
            GroupEvent::Joined { group, pid } => (group, *pid, true),
            GroupEvent::Left { group, pid, .. } => (group, *pid, false),
            other => panic!("{other:?}"),
        };
        let Some(believes) = self.believes.get_mut(&(group.to_string(), subscriber)) else { return };
        let is_change = if joins { believes.insert(pid) } else { believes.remove(&pid) };
        assert!(is_change, "{subscriber} is told twice that {pid} has {event:?}");
    }
}

struct World {
    broker: Broker,
    nodes: Vec<Node>,
    sessions: BTreeMap<(usize, usize), VecDeque<DirectoryMessage>>,
    now: Moment,
}

impl World {
    fn new(count: u64) -> Self {
        let broker = Broker::new();
        let nodes = (1..=count).map(|number| Node::new(&broker, number)).collect();
        let mut world = Self { broker, nodes, sessions: BTreeMap::new(), now: Moment::START };
        world.tell_members();
        world
    }

    /// Tells each node that is a member about all members.
    fn tell_members(&mut self) {
        let members: BTreeMap<_, _> =
            self.nodes.iter().filter_map(|node| node.epoch.map(|epoch| (node.id, epoch))).collect();
        for node in &mut self.nodes {
            let mut others = if node.epoch.is_some() { members.clone() } else { BTreeMap::new() };
            others.remove(&node.id);
            node.groups.set_membership(node.epoch, &others);
        }
    }

    fn connect(&mut self, one: usize, other: usize) {
        if self.sessions.contains_key(&(one, other)) {
            return;
        }
        for (from, to) in [(one, other), (other, one)] {
            self.sessions.insert((from, to), VecDeque::new());
            let to = self.nodes[to].id;
            self.nodes[from].groups.connected(to);
        }
    }

    fn disconnect(&mut self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            if self.sessions.remove(&(from, to)).is_some() {
                let to = self.nodes[to].id;
                self.nodes[from].groups.disconnected(to);
            }
        }
    }

    fn connect_all(&mut self) {
        (0..self.nodes.len()).for_each(|one| (0..one).for_each(|other| self.connect(one, other)));
    }

    /// Moves messages of one session.
    fn talk(&mut self, from: usize, to: usize, random: &mut Random) {
        let (sender, receiver) = (self.nodes[from].id, self.nodes[to].id);
        let Some(queue) = self.sessions.get_mut(&(from, to)) else { return };
        if let Some(message) = self.nodes[from].groups.poll_message(receiver) {
            match random.chance(self.nodes[from].loss) {
                true => self.nodes[from].groups.refused(receiver, message),
                false => queue.push_back(DirectoryMessage::decode(message.encode()).unwrap()),
            }
        }
        if random.chance(60)
            && let Some(message) = queue.pop_front()
        {
            assert!(self.nodes[to].groups.on_message(sender, message));
        }
    }

    fn settle(&mut self, random: &mut Random) {
        self.nodes.iter_mut().for_each(|node| node.loss = 0);
        for _ in 0..200 {
            // In total, the rounds exceed the time for which entries of a node that is not a member are kept.
            self.now = self.now + Duration::from_millis(200);
            let now = self.now;
            self.nodes.iter_mut().for_each(|node| node.run(now, random));
            while self.broker.step() {}
            for from in 0..self.nodes.len() {
                (0..self.nodes.len()).for_each(|to| (0..8).for_each(|_| self.talk(from, to, random)));
            }
        }
    }

    /// Returns the content of the store: the count for each node and group.
    fn stored(&mut self) -> BTreeMap<(NodeId, String), u32> {
        let (client, found) = (self.broker.connect(), Arc::new(Mutex::new(BTreeMap::new())));
        let finds = Arc::clone(&found);
        let on_change = Box::new(move |change| {
            if let Change::Put(entry) = change {
                let count = record::Count::decode(entry.value).unwrap();
                finds.lock().unwrap().insert((record::node_of(&entry.key).unwrap(), count.group), count.members);
            }
        });
        let watch = client.watch(Bucket::Groups, None, on_change).unwrap();
        while self.broker.step() {}
        drop(watch);
        found.lock().unwrap().clone()
    }
}

/// Processes join, leave, end and subscribe on three nodes, while sessions come and go, nodes are fenced and join
/// again, and answers from the store are lost. At rest, the store has the counts, each node knows which others have
/// members, and each subscriber knows all members. Until then, no subscriber is notified twice in a row that a process
/// has joined, or twice in a row that it has left. Each question for the members is answered once.
#[test]
fn at_rest_counts_and_subscribers_have_the_members() {
    let (mut ends, mut fences, mut found) = (0, 0, 0);
    for seed in 0..1_000 {
        let (mut random, mut world, mut epoch) = (Random::new(seed), World::new(3), 100);
        world.nodes.iter_mut().for_each(|node| node.loss = 20);
        world.connect_all();
        for _ in 0..300 {
            let (at, other) = (random.below(3) as usize, random.below(3) as usize);
            let (group, slot) = (GROUPS[random.below(2) as usize], random.below(4));
            let (now, node) = (world.now, &mut world.nodes[at]);
            let (pid, key) = (node.pid(slot), (group.to_owned(), node.pid(slot)));
            match random.below(40) {
                0..6 => {
                    let joins = node.joined.entry(key).or_default();
                    *joins += 1;
                    assert_eq!(node.groups.join(group, pid), Ok(*joins == 1), "seed {seed}");
                }
                6..9 => {
                    let was_member = node.joined.contains_key(&key);
                    if let Some(joins) = node.joined.get_mut(&key) {
                        *joins -= 1;
                    }
                    node.joined.retain(|_, joins| *joins > 0);
                    assert_eq!(node.groups.leave(group, pid), was_member, "seed {seed}");
                }
                9 => {
                    node.groups.ended(pid, &ExitReason::Killed);
                    node.forget(pid);
                    ends += 1;
                }
                10..12 => {
                    let members = node.groups.subscribe(group, pid).unwrap();
                    // A repeated subscription keeps the known members, since the waiting events build on them.
                    node.believes.entry(key).or_insert_with(|| members.into_iter().collect());
                }
                12 => {
                    let was_there = node.believes.remove(&key).is_some();
                    assert_eq!(node.groups.unsubscribe(group, pid), was_there, "seed {seed}");
                }
                13 => _ = node.asked.insert(node.groups.ask_members(group), group.into()),
                14 if at != other => world.disconnect(at, other),
                15 | 16 if at != other => world.connect(at, other),
                17 => {
                    epoch += 1;
                    node.epoch = if random.chance(50) { None } else { Some(Revision(epoch)) };
                    fences += u32::from(node.epoch.is_none());
                    world.tell_members();
                }
                // For a moment, this node considers the other members lost, and deletes their entries.
                18 if node.epoch.is_some() => {
                    node.groups.set_membership(node.epoch, &BTreeMap::new());
                    world.tell_members();
                }
                18..24 => _ = world.broker.step(),
                24..30 => node.run(now, &mut random),
                30 => world.now = world.now + Duration::from_millis(random.below(2_000)),
                _ => world.talk(at, other, &mut random),
            }
        }
        for node in &mut world.nodes {
            epoch += 1;
            node.epoch.get_or_insert(Revision(epoch));
        }
        world.tell_members();
        world.connect_all();
        world.settle(&mut random);
        found += world.nodes.iter().map(|node| node.answers).sum::<u32>();
        for node in &mut world.nodes {
            assert!(node.asked.is_empty(), "seed {seed}: a question has no answer");
            node.listed.clear();
            GROUPS.iter().for_each(|group| _ = node.asked.insert(node.groups.ask_members(group), group.to_string()));
        }
        world.settle(&mut random);
        let expected: BTreeMap<_, _> = GROUPS
            .iter()
            .flat_map(|group| world.nodes.iter().map(|node| ((node.id, group.to_string()), node.members(group).len())))
            .filter(|(_, count)| *count > 0)
            .map(|(key, count)| (key, count as u32))
            .collect();
        assert_eq!(world.stored(), expected, "seed {seed}");
        for node in &world.nodes {
            for group in GROUPS {
                let all: BTreeSet<_> = world.nodes.iter().flat_map(|node| node.members(group)).collect();
                assert_eq!(node.listed[group], all.iter().copied().collect::<Vec<_>>(), "seed {seed}");
                let with_members: Vec<_> =
                    world.nodes.iter().filter(|other| !other.members(group).is_empty()).collect();
                let with_members = with_members.iter().map(|other| other.id).filter(|id| *id != node.id);
                assert_eq!(node.groups.nodes_with_members(group), with_members.collect::<Vec<_>>(), "seed {seed}");
                for ((of, subscriber), believes) in &node.believes {
                    assert!(of != group || *believes == all, "seed {seed}: {subscriber} of {group}: {believes:?}");
                }
            }
        }
    }
    assert!(ends > 1_000 && fences > 1_000 && found > 500, "{ends} ends, {fences} fences, {found} found");
}

/// While a subscriber takes no events and a peer has no room, more processes come and go than events can be queued.
/// Both get the net change.
#[test]
fn who_is_far_behind_is_told_the_net_change() {
    let (mut random, mut world) = (Random::new(1), World::new(2));
    world.connect_all();
    let first = world.nodes[1].pid(1);
    world.nodes[1].groups.join("a", first).unwrap();
    world.nodes[1].joined.insert(("a".into(), first), 1);
    let subscriber = world.nodes[0].pid(9);
    assert_eq!(world.nodes[0].groups.subscribe("a", subscriber), Ok(vec![]));
    world.nodes[0].believes.insert(("a".into(), subscriber), BTreeSet::new());
    world.settle(&mut random);
    assert_eq!(world.nodes[0].believes[&("a".into(), subscriber)], BTreeSet::from([first]));
    for at in [0, 1] {
        // On the subscriber's node and on the other, far more processes join than events can be queued. Every second
        // process stays.
        for slot in 10..10 + 2 * MAX_QUEUED as u64 {
            let node = &mut world.nodes[at];
            let pid = node.pid(slot);
            node.groups.join("a", pid).unwrap();
            match slot % 2 {
                0 => _ = node.joined.insert(("a".into(), pid), 1),
                _ => assert!(node.groups.leave("a", pid)),
            }
        }
    }
    assert!(world.nodes[1].groups.leave("a", first));
    world.nodes[1].joined.remove(&("a".into(), first));
    let to = world.nodes[0].id;
    let queued: Vec<_> = std::iter::from_fn(|| world.nodes[1].groups.poll_message(to)).collect();
    assert!(queued.len() <= MAX_QUEUED, "{} wait", queued.len());
    assert!(matches!(queued.last(), Some(DirectoryMessage::Members { members, .. }) if members.len() == MAX_QUEUED));
    world.sessions.get_mut(&(1, 0)).unwrap().extend(queued);
    for _ in 0..40 {
        world.settle(&mut random);
    }
    let all: BTreeSet<_> = world.nodes.iter().flat_map(|node| node.members("a")).collect();
    assert_eq!(world.nodes[0].believes[&("a".into(), subscriber)], all);
}

/// Catches: a subscriber to two groups that gets no events of either, because the batch that would trigger those events
/// was for the group that it has left.
#[test]
fn who_is_behind_in_one_group_and_leaves_the_other_hears_of_the_one() {
    let mut groups = Groups::new(NodeId::new(1).unwrap());
    let pid = |slot: usize| format!("<1.0.{slot}.1>").parse::<Pid>().unwrap();
    let (subscriber, joins) = (pid(5), pid(6));
    assert!(GROUPS.iter().all(|group| groups.subscribe(group, subscriber) == Ok(vec![])));
    (0..MAX_QUEUED).for_each(|slot| _ = groups.join("b", pid(10 + slot)).unwrap());
    groups.join("a", joins).unwrap();
    assert!(groups.unsubscribe("b", subscriber));
    let Some((told, events)) = groups.poll_events() else { panic!("it is told nothing") };
    let joined = |(_, event): &(u64, GroupEvent)| matches!(event, GroupEvent::Joined { pid, .. } if *pid == joins);
    assert!(told == subscriber && events.len() == 1 && events.iter().all(joined), "{events:?}");
}

/// The entries belong to a node that ended while no other was watching. The watch may report an entry before the record
/// of its node, so the entry is not deleted at once.
#[test]
fn entries_of_a_node_that_is_gone_are_deleted_after_a_while() {
    let (mut random, mut world) = (Random::new(1), World::new(1));
    let member = world.nodes[0].pid(1);
    world.nodes[0].groups.join("a", member).unwrap();
    world.settle(&mut random);
    assert_eq!(world.stored().len(), 1);
    world.nodes = vec![Node::new(&world.broker, 2)];
    world.tell_members();
    let begun = world.now;
    while !world.stored().is_empty() {
        world.now = world.now + Duration::from_millis(500);
        world.nodes[0].run(world.now, &mut random);
        assert!(world.now.since(begun) < 2 * Bucket::LEASE_TTL, "it stays");
    }
    assert!(world.now.since(begun) > Bucket::LEASE_TTL, "its node may have been about to be seen");
}

#[test]
fn members_of_a_node_that_is_lost_leave_with_that_reason() {
    let (mut random, mut world) = (Random::new(1), World::new(2));
    world.connect_all();
    let (member, subscriber) = (world.nodes[1].pid(1), world.nodes[0].pid(2));
    world.nodes[1].groups.join("a", member).unwrap();
    world.nodes[0].groups.subscribe("a", subscriber).unwrap();
    world.settle(&mut random);
    world.disconnect(0, 1);
    let lost = GroupEvent::Left { group: "a".into(), pid: member, reason: Some(ExitReason::NodeLost) };
    let (to, events) = world.nodes[0].groups.poll_events().unwrap();
    assert_eq!((to, events.into_iter().map(|(_, event)| event).collect::<Vec<_>>()), (subscriber, vec![lost]));
    world.nodes[0].groups.told(world.now, subscriber, vec![]);
    assert!(world.nodes[0].groups.nodes_with_members("a").is_empty());
    world.connect(0, 1);
    world.settle(&mut random);
    world.nodes[1].groups.ended(member, &ExitReason::Killed);
    (0..9).for_each(|_| world.talk(1, 0, &mut random));
    let killed = GroupEvent::Left { group: "a".into(), pid: member, reason: Some(ExitReason::Killed) };
    let (_, events) = world.nodes[0].groups.poll_events().unwrap();
    assert_eq!(events.last().map(|(_, event)| event), Some(&killed));
}

#[test]
fn what_cannot_be_a_member_is_refused() {
    let mut groups = Groups::new(NodeId::new(1).unwrap());
    let (own, other): (Pid, Pid) = ("<1.0.5.1>".parse().unwrap(), "<2.0.5.1>".parse().unwrap());
    for name in [String::new(), "x".repeat(MAX_NAME + 1)] {
        assert_eq!(groups.join(&name, own), Err(MembershipError::Length { bytes: name.len() }));
        assert_eq!(groups.subscribe(&name, own), Err(MembershipError::Length { bytes: name.len() }));
    }
    assert_eq!(groups.join("a", other), Err(MembershipError::Elsewhere { pid: other }));
    let node = other.node();
    groups.connected(node);
    let joined = DirectoryMessage::Joined { group: "a".into(), pid: own };
    assert!(!groups.on_message(node, joined), "a node speaks for its own processes");
    assert!(!groups.on_message(node, DirectoryMessage::Members { group: "a".into(), members: vec![other, own] }));
    for slot in 0..MAX_MEMBERS {
        groups.join("a", format!("<1.0.{slot}.2>").parse().unwrap()).unwrap();
    }
    assert_eq!(groups.join("a", own), Err(MembershipError::Full { limit: MAX_MEMBERS }));
}

/// A peer has more members than it may have, or follows too many groups. Nothing beyond the limit is kept, and the
/// session with the peer ends.
#[test]
fn what_a_peer_may_say_of_groups_has_a_limit() {
    let mut groups = Groups::new(NodeId::new(1).unwrap());
    let (subscriber, peer): (Pid, _) = ("<1.0.5.1>".parse().unwrap(), NodeId::new(2).unwrap());
    let pid = |slot: usize| -> Pid { format!("<2.0.{slot}.1>").parse().unwrap() };
    let joined = |slot| DirectoryMessage::Joined { group: "a".into(), pid: pid(slot) };
    let list = |count| DirectoryMessage::Members { group: "a".into(), members: (0..count).map(pid).collect() };
    let count = record::Count { group: "a".into(), epoch: Revision(1), members: 1 };
    let entry = Entry { key: record::key(peer, "a"), value: count.encode(), revision: Revision(2) };
    groups.on_change(Change::Put(entry));
    groups.subscribe("a", subscriber).unwrap();
    groups.connected(peer);
    assert!(groups.on_message(peer, list(MAX_MEMBERS)) && groups.poll_flood().is_none());
    assert!(groups.on_message(peer, joined(7)) && groups.poll_flood().is_none(), "it is known");
    assert!(groups.on_message(peer, joined(MAX_MEMBERS)));
    assert_eq!((groups.poll_flood(), groups.poll_flood()), (Some(peer), None));
    groups.ask_members("a");
    assert_eq!(groups.poll_listed().map(|listed| listed.members.len()), Some(MAX_MEMBERS));

    groups.disconnected(peer);
    groups.connected(peer);
    groups.ask_members("a");
    assert!(groups.on_message(peer, list(MAX_MEMBERS + 1)));
    assert_eq!((groups.poll_flood(), groups.poll_listed()), (Some(peer), None));

    let follow = |number: usize| DirectoryMessage::Follow { group: format!("group-{number}") };
    assert!((0..100_000).all(|number| groups.on_message(peer, follow(number))) && groups.poll_flood().is_none());
    assert!(groups.on_message(peer, follow(7)) && groups.poll_flood().is_none(), "it follows that");
    assert!(groups.on_message(peer, follow(100_000)));
    assert_eq!(groups.poll_flood(), Some(peer));
}
