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
//! half a minute in which nodes are cut off for longer than their leases. The tests of `postroom-nats` do the same over
//! a real server; `.ci/nightly` runs the rounds of both. Nothing depends on time: histories record the order of events.
//!
//! **Blind spots.** Once a node has met a fault, the specification allows its names to become free at any time: a
//! name that passes on *too early* is found only by the writes, if at all, and by the tests `programs` of
//! `postroom-nats`, which check lower bounds. All nodes are in one program and share its clock.

mod clients;
mod history;
mod spec;

use clients::{Holder, Line, Site, check_names, join};
use history::{Book, Guard};
use postroom::Runtime;
use postroom_cluster::engine::Engine;
use postroom_cluster::memory::{Broker, Client, RunningBroker};
use postroom_cluster::store::Bucket;
use postroom_cluster::{Builder, Cluster};
use std::sync::{Arc, mpsc};

/// The broker in memory, which runs until this is dropped.
struct Memory {
    broker: Broker,
    _running: RunningBroker,
}

impl Memory {
    fn new(broker: Broker) -> Self {
        Self { _running: broker.run(), broker }
    }
}

impl Site for Memory {
    fn join(&self, runtime: &Runtime, builder: Builder) -> (Cluster, Box<dyn Line>) {
        let client = Arc::new(self.broker.connect());
        (builder.join(runtime, Arc::clone(&client)).unwrap(), Box::new(client))
    }
}

impl Line for Arc<Client> {
    fn cut(&self) {
        self.disconnect();
    }

    fn heal(&self) {
        self.reconnect();
    }
}

#[test]
fn names_are_linearizable_and_guarded_writes_are_not_lost() {
    check_names(&Memory::new(Broker::new()));
}

/// Makes a name pass on while its holder lives: its entry is deleted behind the nodes' back. Both holders write.
/// Returns what the checks find to be wrong.
fn given_away_early(guard: Guard) -> Vec<String> {
    let broker = Broker::new();
    let rogue = broker.connect();
    let site = Memory::new(broker.clone());
    let [one, two] = ["eu-1", "eu-2"].map(|name| join(&site, name));
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
    // The first holder cannot know that it has lost the name.
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
