//! Clients of names on three nodes, and the faults that the nodes meet in the meantime, over any broker.

use crate::history::{Book, Guard, Totals};
use postroom::prelude::*;
use postroom::{NodeId, Runtime};
use postroom_cluster::{Builder, Cluster};
use std::thread;
use std::time::{Duration, Instant};

/// The longest wait for events that should take seconds. The test fails if that is not enough.
const WAIT: Duration = Duration::from_secs(300);
/// The time for which a node is cut off so that its names pass on: longer than a lease.
const BEYOND_THE_LEASE: Duration = Duration::from_secs(18);

#[process]
#[derive(Default)]
pub(crate) struct Holder;

#[process(remote)]
impl Holder {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    #[message]
    fn ping(&mut self) {}
}

/// Random numbers. The same seed gives the same numbers on every machine (SplitMix64, Steele et al. 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }
}

/// The broker through which the nodes of a test communicate.
pub(crate) trait Site {
    /// Joins as a node. Also returns the connection of that node.
    fn join(&self, runtime: &Runtime, builder: Builder) -> (Cluster, Box<dyn Line>);
}

/// The connection of a node to its site.
pub(crate) trait Line: Sync {
    /// Cuts the node off.
    fn cut(&self);
    /// Connects the node again.
    fn heal(&self);
}

/// A node of a test.
pub(crate) struct Node {
    pub(crate) cluster: Cluster,
    pub(crate) runtime: Runtime,
    line: Box<dyn Line>,
}

/// Starts a node of this name, and waits until it is a member.
pub(crate) fn join(site: &dyn Site, name: &str) -> Node {
    let runtime = Runtime::builder().workers(1).logical_node(NodeId::random()).build().unwrap();
    let builder = Cluster::builder("names").node(name).export::<Holder>().join_within(WAIT);
    let (cluster, line) = site.join(&runtime, builder);
    Node { cluster, runtime, line }
}

/// Waits until the condition holds.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < WAIT, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs one client of a node: a process that holds names, and its operations. The client does not know of faults: it
/// writes with its token until the store refuses the write, like a holder that was paused.
fn client(book: &Book, node: &Node, seed: u64, acts: u64, pause: Duration) {
    let mut dice = Dice(seed);
    let spawn = || node.runtime.spawn(Holder).serve().unwrap().pid();
    let mut pid = spawn();
    let mut held = vec![None; book.len()];
    for _ in 0..acts {
        thread::sleep(pause.mul_f64(dice.below(1_000) as f64 / 500.0));
        let number = dice.below(book.len() as u64) as usize;
        match dice.below(20) {
            0..10 => held[number] = book.register(&node.cluster, number, pid).or(held[number]),
            10..13 => {
                book.release(&node.cluster, number, pid);
                held[number] = None;
            }
            13..19 => book.look_up(&node.cluster, number),
            _ => {
                book.ends(pid);
                let _ = pid.stop();
                pid = spawn();
            }
        }
        for (number, held) in held.iter_mut().enumerate() {
            if held.as_mut().is_some_and(|held| !book.write(number, held)) {
                *held = None;
            }
        }
    }
}

/// Lets three nodes use the names of a book while `faults` runs, and checks the result.
fn use_names(site: &dyn Site, book: &Book, acts: u64, pause: Duration, faults: impl FnOnce(&[Node; 3])) -> Totals {
    let nodes = ["eu-1", "eu-2", "eu-3"].map(|name| join(site, name));
    for node in &nodes {
        assert!(node.cluster.wait_for_members(2, WAIT), "{:?}", node.cluster.members());
    }
    thread::scope(|scope| {
        for (number, node) in nodes.iter().enumerate() {
            for seed in [1, 2] {
                scope.spawn(move || client(book, node, (2 * number + seed) as u64, acts, pause));
            }
        }
        faults(&nodes);
    });
    let (wrong, totals) = book.check();
    assert!(wrong.is_empty(), "{wrong:#?}");
    eprintln!("{totals:?}");
    for node in nodes {
        node.cluster.leave().wait();
        node.runtime.shutdown().unwrap();
    }
    totals
}

/// Cuts a node off for a moment, and makes another one leave while the clients are at work.
fn short_faults(book: &Book, nodes: &[Node; 3]) {
    thread::sleep(Duration::from_millis(100));
    book.fails(nodes[1].cluster.id());
    nodes[1].line.cut();
    thread::sleep(Duration::from_millis(200));
    nodes[1].line.heal();
    thread::sleep(Duration::from_millis(100));
    book.fails(nodes[2].cluster.id());
    nodes[2].cluster.leave().wait();
}

/// Cuts a node off until its names have passed on, and heals it; then another node leaves.
fn long_faults(book: &Book, nodes: &[Node; 3]) {
    thread::sleep(Duration::from_secs(2));
    book.fails(nodes[1].cluster.id());
    nodes[1].line.cut();
    thread::sleep(BEYOND_THE_LEASE);
    nodes[1].line.heal();
    wait_until("it is a member again", || nodes[1].cluster.is_member());
    thread::sleep(Duration::from_secs(2));
    book.fails(nodes[2].cluster.id());
    nodes[2].cluster.leave().wait();
}

fn rounds() -> usize {
    std::env::var("POSTROOM_NAMES_ROUNDS").map_or(0, |rounds| rounds.parse().unwrap())
}

/// Checks that names are linearizable and that no guarded write is lost: in a run of about a second with short faults,
/// and in `POSTROOM_NAMES_ROUNDS` long runs.
pub(crate) fn check_names(site: &dyn Site) {
    let book = Book::new("short", 24, Guard::Token);
    let totals = use_names(site, &book, 100, Duration::from_millis(4), |nodes| short_faults(&book, nodes));
    assert!(totals.tokens > 0 && totals.confirmed > 0);
    for round in 0..rounds() {
        let book = Book::new(&format!("long-{round}"), 64, Guard::Token);
        use_names(site, &book, 250, Duration::from_millis(100), |nodes| long_faults(&book, nodes));
    }
}
