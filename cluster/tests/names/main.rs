//! Names of the cluster under faults: clients on several nodes register, release and look up names and write with
//! their tokens, while nodes are cut off, leave, and end. Their observations are checked by the linearizability
//! tester of the crate stateright, against a [specification](spec) of names with fencing tokens.
//!
//! | property | checked by |
//! |---|---|
//! | one holder at a time, tokens grow | the history of each name is linearizable |
//! | a holder that was cut off can do no harm | of the writes guarded by tokens, no confirmed one is lost |
//! | a node's view of a name never goes back | the tokens that each node looks up |
//!
//! A run of a second over the broker in memory is a part of `cargo test`. `POSTROOM_NAMES_ROUNDS=n` adds rounds of
//! half a minute in which nodes are cut off for longer than their leases; with the feature `nats`, each runs over a
//! real server too. `.ci/nightly` does both. Nothing depends on time: histories record the order of events.
//!
//! **Blind spots.** Once a node has met a fault, the specification allows its names to become free at any time: a
//! name that passes on *too early* is found only by the writes, if at all, and by the tests of `programs`, which
//! check lower bounds. All nodes are in one program and share its clock.

mod history;
#[cfg(feature = "nats")]
#[allow(dead_code, reason = "the tests of programs use the rest")]
#[path = "../programs/proxy.rs"]
mod proxy;
mod spec;
#[cfg(feature = "nats")]
#[path = "../programs/support.rs"]
mod support;

use history::{Book, Guard, Totals};
use postroom::prelude::*;
use postroom::{NodeId, Runtime};
use postroom_cluster::Cluster;
use postroom_cluster::engine::{Bucket, Engine};
use postroom_cluster::memory::{Broker, Client, RunningBroker};
#[cfg(feature = "nats")]
use postroom_cluster::nats::Nats;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// The longest wait for events that should take seconds. The test fails if that is not enough.
const WAIT: Duration = Duration::from_secs(120);
/// The time for which a node is cut off so that its names pass on: longer than a lease.
const BEYOND_THE_LEASE: Duration = Duration::from_secs(18);

#[process]
#[derive(Default)]
struct Holder;

#[process(remote)]
impl Holder {
    #[entry]
    fn serve(&mut self) {}

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
enum Site {
    Memory(Broker, #[allow(dead_code, reason = "it runs until it is dropped")] RunningBroker),
    #[cfg(feature = "nats")]
    Server(support::server::Server),
}

/// The connection of a node to its site.
enum Line {
    Memory(Arc<Client>),
    #[cfg(feature = "nats")]
    Server(proxy::Proxy),
}

struct Node {
    cluster: Cluster,
    runtime: Runtime,
    line: Line,
}

impl Site {
    fn memory() -> Self {
        let broker = Broker::new();
        let running = broker.run();
        Self::Memory(broker, running)
    }

    fn join(&self, name: &str) -> Node {
        let runtime = Runtime::builder().workers(1).logical_node(NodeId::random()).build().unwrap();
        let builder = Cluster::builder("names").node(name).export::<Holder>().join_within(WAIT);
        let (line, cluster) = match self {
            Self::Memory(broker, _) => {
                let client = Arc::new(broker.connect());
                (Line::Memory(Arc::clone(&client)), builder.join(&runtime, client))
            }
            #[cfg(feature = "nats")]
            Self::Server(server) => {
                let proxy = proxy::Proxy::to(server.port());
                let url = format!("nats://127.0.0.1:{}", proxy.port());
                (Line::Server(proxy), builder.join(&runtime, Nats::at(url)))
            }
        };
        Node { cluster: cluster.unwrap(), runtime, line }
    }
}

impl Line {
    fn cut(&self) {
        match self {
            Self::Memory(client) => client.disconnect(),
            #[cfg(feature = "nats")]
            Self::Server(proxy) => proxy.cut(),
        }
    }

    fn heal(&self) {
        match self {
            Self::Memory(client) => client.reconnect(),
            #[cfg(feature = "nats")]
            Self::Server(proxy) => proxy.heal(),
        }
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < WAIT, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs one client of a node: a process that holds names, and its operations. It does not know of faults: it writes
/// with its token until the store refuses the write, like a holder that was paused.
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
fn use_names(site: &Site, book: &Book, acts: u64, pause: Duration, faults: impl FnOnce(&[Node; 3])) -> Totals {
    let nodes = ["eu-1", "eu-2", "eu-3"].map(|name| site.join(name));
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

fn check_names(site: &Site) {
    let book = Book::new("short", 24, Guard::Token);
    let totals = use_names(site, &book, 100, Duration::from_millis(4), |nodes| short_faults(&book, nodes));
    assert!(totals.tokens > 0 && totals.confirmed > 0);
    for round in 0..rounds() {
        let book = Book::new(&format!("long-{round}"), 64, Guard::Token);
        use_names(site, &book, 250, Duration::from_millis(100), |nodes| long_faults(&book, nodes));
    }
}

#[test]
fn names_are_linearizable_and_guarded_writes_are_not_lost() {
    check_names(&Site::memory());
}

#[cfg(feature = "nats")]
#[test]
fn names_are_linearizable_over_a_real_server() {
    let Some(server) = support::server::Server::start() else { return };
    check_names(&Site::Server(server));
}

/// Makes a name pass on while its holder lives: its entry is deleted behind the nodes' back. Both holders write.
/// Returns the faults that the checks find.
fn given_away_early(guard: Guard) -> Vec<String> {
    let broker = Broker::new();
    let rogue = broker.connect();
    let site = Site::Memory(broker.clone(), broker.run());
    let [one, two] = ["eu-1", "eu-2"].map(|name| site.join(name));
    let [first, second] = [&one, &two].map(|node| node.runtime.spawn(Holder).serve().unwrap().pid());
    let book = Book::new("name", 1, guard);
    let mut held = book.register(&one.cluster, 0, first).unwrap();
    assert!(book.write(0, &mut held));

    let (sender, answers) = mpsc::channel();
    rogue.get(Bucket::Names, &book.name(0), Box::new(move |read| sender.send(read).unwrap()));
    let entry = answers.recv().unwrap().unwrap().unwrap();
    let (sender, answers) = mpsc::channel();
    let then = Box::new(move |deleted| sender.send(deleted).unwrap());
    rogue.delete(Bucket::Names, &entry.key, entry.revision, then);
    answers.recv().unwrap().unwrap();

    let mut next = book.register(&two.cluster, 0, second).unwrap();
    // The first holder cannot know.
    let is_admitted = book.write(0, &mut held);
    assert_eq!(is_admitted, guard == Guard::Nothing);
    assert!(book.write(0, &mut next));
    book.check().0
}

#[test]
fn a_name_that_is_given_away_early_is_found_and_the_token_makes_it_harmless() {
    let wrong = given_away_early(Guard::Token);
    assert!(wrong.len() == 1 && wrong[0].contains("is not linearizable"), "{wrong:?}");
}

#[test]
fn without_a_look_at_the_token_writes_are_lost() {
    let wrong = given_away_early(Guard::Nothing);
    assert!(wrong.iter().any(|wrong| wrong.contains("3 writes were confirmed, 2 are left")), "{wrong:?}");
}
