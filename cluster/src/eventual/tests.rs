//! Tests of the eventual names of several nodes. The sessions between the nodes begin and end at random.

use super::*;
use crate::clock::Moment;
use crate::directory::message::DirectoryMessage;
use crate::random::Random;
use postroom::NodeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const NODES: usize = 4;
const NAMES: [&str; 3] = ["a", "b", "c"];

struct World {
    nodes: Vec<EventualNames>,
    /// Messages in flight, by sender and receiver. Two nodes have a session if they have a queue.
    sessions: BTreeMap<(usize, usize), VecDeque<DirectoryMessage>>,
    /// The messages that each process received.
    lost: Vec<(Pid, NameLost)>,
}

fn id(at: usize) -> NodeId {
    NodeId::new(at as u64 + 1).unwrap()
}

fn pid(at: usize, slot: u64) -> Pid {
    format!("<{}.0.{slot}.1>", id(at)).parse().unwrap()
}

impl World {
    fn new() -> Self {
        let nodes = (0..NODES).map(|at| EventualNames::new(id(at))).collect();
        Self { nodes, sessions: BTreeMap::new(), lost: Vec::new() }
    }

    fn connect(&mut self, one: usize, other: usize) {
        if self.sessions.contains_key(&(one, other)) {
            return;
        }
        for (from, to) in [(one, other), (other, one)] {
            self.sessions.insert((from, to), VecDeque::new());
            self.nodes[from].connected(id(to));
        }
    }

    fn disconnect(&mut self, one: usize, other: usize) {
        for (from, to) in [(one, other), (other, one)] {
            if self.sessions.remove(&(from, to)).is_some() {
                self.nodes[from].disconnected(id(to));
            }
        }
    }

    /// Moves one message of a session. Some messages find no room, and stay with the sender.
    fn step(&mut self, from: usize, to: usize, random: &mut Random) -> bool {
        let Some(queue) = self.sessions.get_mut(&(from, to)) else { return false };
        if random.chance(50)
            && let Some(message) = self.nodes[from].poll_message(id(to))
        {
            match random.chance(20) {
                true => self.nodes[from].refused(id(to), message),
                false => queue.push_back(message),
            }
            return true;
        }
        let Some(message) = queue.pop_front() else { return false };
        assert!(self.nodes[to].on_message(id(from), message));
        self.hear(to);
        true
    }

    fn hear(&mut self, at: usize) {
        while let Some((pid, lost)) = self.nodes[at].poll_lost() {
            self.lost.extend(lost.into_iter().map(|lost| (pid, lost)));
            self.nodes[at].told(Moment::START, pid, Vec::new());
        }
    }

    fn settle(&mut self, random: &mut Random) {
        let mut idle = 0;
        while idle < 1_000 {
            let (from, to) = (random.below(NODES as u64) as usize, random.below(NODES as u64) as usize);
            idle = if self.step(from, to, random) { 0 } else { idle + 1 };
        }
    }
}

/// Processes claim, release and end while sessions come and go. Once all nodes have met, all of them see the same
/// holder of each name, and it is one of the processes that held the name before. Each process that lost a name without
/// releasing it was notified once.
#[test]
fn after_a_split_all_see_one_holder_and_each_loser_was_told_once() {
    let (mut splits, mut losers, mut free) = (0, 0, 0);
    for seed in 0..1_000 {
        let (mut random, mut world) = (Random::new(seed), World::new());
        // The names and the processes that hold them, according to the messages that the processes received.
        let mut holds: BTreeSet<(String, Pid)> = BTreeSet::new();
        for _ in 0..300 {
            let (at, other) = (random.below(NODES as u64) as usize, random.below(NODES as u64) as usize);
            let (name, pid) = (NAMES[random.below(3) as usize], pid(at, random.below(2)));
            match random.below(24) {
                0 if at != other => world.disconnect(at, other),
                1 if at != other => world.connect(at, other),
                2..5 => match world.nodes[at].claim(name, pid) {
                    Ok(is_new) => assert_eq!(holds.insert((name.into(), pid)), is_new, "seed {seed}"),
                    Err(ClaimError::Taken { holder, .. }) => assert_ne!(holder, pid),
                    Err(error) => panic!("seed {seed}: {error}"),
                },
                5 => {
                    let was_held = holds.remove(&(name.to_owned(), pid));
                    assert_eq!(world.nodes[at].release(name, pid), was_held, "seed {seed}");
                }
                6 if random.chance(30) => {
                    world.nodes[at].ended(pid);
                    holds.retain(|(_, holder)| *holder != pid);
                }
                _ => _ = world.step(at, other, &mut random),
            }
            losers += hear(&mut world, &mut holds, seed);
        }
        // Claims in flight may belong to processes that have given up the name, so deliver them first: after that, no
        // name loses all of its holders.
        world.settle(&mut random);
        hear(&mut world, &mut holds, seed);
        let before = holds.clone();
        splits += u32::from(NAMES.iter().any(|name| before.iter().filter(|(held, _)| held == name).count() > 1));
        (0..NODES).for_each(|one| (0..one).for_each(|other| world.connect(one, other)));
        world.settle(&mut random);
        losers += hear(&mut world, &mut holds, seed);
        for name in NAMES {
            let holders: Vec<_> = holds.iter().filter(|(held, _)| held == name).map(|(_, pid)| *pid).collect();
            assert!(holders.len() <= 1, "seed {seed}: {name} is held by {holders:?}");
            let had_one = before.iter().any(|(held, _)| held == name);
            assert_eq!(holders.len(), usize::from(had_one), "seed {seed}: {name} has lost all its holders");
            free += u32::from(!had_one);
            for node in &world.nodes {
                assert_eq!(node.holder(name), holders.first().copied(), "seed {seed}: {name}");
            }
        }
        assert!(world.nodes.iter_mut().all(|node| (0..NODES).all(|at| node.poll_message(id(at)).is_none())));
    }
    assert!(splits > 200 && losers > 500 && free > 100, "{splits} splits, {losers} losers, {free} free");
}

/// Takes the messages that losers have received, and checks that each is about a name that the loser holds. Returns the
/// number of messages.
fn hear(world: &mut World, holds: &mut BTreeSet<(String, Pid)>, seed: u64) -> u32 {
    let lost = std::mem::take(&mut world.lost);
    for (pid, NameLost { name, holder }) in &lost {
        assert_ne!(holder, pid);
        assert!(holds.remove(&(name.clone(), *pid)), "seed {seed}: told twice, or of a name that it does not hold");
    }
    lost.len() as u32
}

/// A holder wins against any claim that could have known of it, whatever the PIDs of the two processes are.
#[test]
fn the_earlier_of_two_claims_wins_where_one_could_have_known_the_other() {
    let (mut random, mut world) = (Random::new(1), World::new());
    world.connect(2, 3);
    for name in ["b", "c", "d", "a"] {
        world.nodes[3].claim(name, pid(3, 1)).unwrap();
    }
    world.settle(&mut random);
    assert_eq!(world.nodes[2].claim("b", pid(2, 1)), Err(ClaimError::Taken { name: "b".into(), holder: pid(3, 1) }));
    // The stamps of node 2 exceed all that it has seen, although this is its first claim.
    world.disconnect(2, 3);
    world.nodes[2].claim("a", pid(2, 1)).unwrap();
    world.connect(2, 3);
    world.settle(&mut random);
    assert_eq!(world.lost, [(pid(2, 1), NameLost { name: "a".into(), holder: pid(3, 1) })]);
}

#[test]
fn what_cannot_be_claimed_is_refused() {
    let mut names = EventualNames::new(id(0));
    for name in [String::new(), "x".repeat(MAX_NAME + 1)] {
        assert_eq!(names.claim(&name, pid(0, 1)), Err(ClaimError::Length { bytes: name.len() }));
    }
    assert_eq!(names.claim("a", pid(1, 1)), Err(ClaimError::Elsewhere { pid: pid(1, 1) }));
    names.connected(id(1));
    let claim = |at, stamp| DirectoryMessage::Claim { name: "a".into(), pid: pid(at, 1), stamp };
    assert!(!names.on_message(id(1), claim(2, 1)), "a node speaks for its own processes");
    // The greatest possible stamp does no harm.
    assert!(names.on_message(id(1), claim(1, u64::MAX)));
    assert_eq!(names.claim("b", pid(0, 1)), Ok(true));
}

/// A node claims as many names as it may. While its peer has no room for more, it releases some names and claims others
/// that sort before them.
///
/// Catches: a claim that is refused forever because it is sent before the withdrawals that make room for it.
#[test]
fn who_has_all_its_names_may_change_them() {
    let (mut here, mut there) = (EventualNames::new(id(0)), EventualNames::new(id(1)));
    here.connected(id(1));
    there.connected(id(0));
    let mut pass = |here: &mut EventualNames| {
        while let Some(message) = here.poll_message(id(1)) {
            assert!(there.on_message(id(0), message), "it has room");
        }
        there.holder("a-0")
    };
    (0..MAX_CLAIMS).for_each(|name| assert_eq!(here.claim(&format!("b-{name}"), pid(0, 1)), Ok(true)));
    assert_eq!(pass(&mut here), None);
    for name in 0..10 {
        assert!(here.release(&format!("b-{name}"), pid(0, 1)));
        assert_eq!(here.claim(&format!("a-{name}"), pid(0, 2)), Ok(true));
    }
    assert_eq!(pass(&mut here), Some(pid(0, 2)));
}
