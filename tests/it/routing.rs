//! The receivers between a package and its mailbox. Each takes its own packages, and returns others with a typed error.

use postroom::error::SendFailure;
use postroom::manual::Event;
use postroom::prelude::*;
use postroom::routing::{Node, Receiver, Router, Transport, Undeliverable};
use postroom::{NodeId, Package, this_node};
use postroom_tests::{act, eventually, idle_for_ever, soon};
use std::sync::{Arc, Mutex};

mod calls;
mod controls;
mod logical;
mod pressure;
mod simulated;
mod ties;
mod wire;

fn collects() -> (Runtime, Pid, Arc<Mutex<Vec<u64>>>) {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let seen = Arc::new(Mutex::new(vec![]));
    let sees = seen.clone();
    let pid = runtime.spawn_process(act(move |events, _| {
        while let Some(event) = events.next() {
            if let Event::Message(package) = event {
                sees.lock().unwrap().push(package.take::<u64>().unwrap());
            }
        }
        Ok(())
    }));
    let pid = pid.start().unwrap();
    (runtime, pid, seen)
}

fn at(node: NodeId, host: u16, pid: Pid) -> Pid {
    format!("<{node}.{host}.{}.{}>", pid.slot(), pid.generation()).parse().unwrap()
}

/// Returns a node other than this program's.
fn elsewhere() -> NodeId {
    NodeId::new(this_node().get() ^ 1).or(NodeId::new(2)).unwrap()
}

fn number_in(refused: Undeliverable) -> (u64, SendFailure) {
    (refused.package.take::<u64>().unwrap(), refused.reason)
}

#[test]
fn every_station_brings_a_package_to_its_process() {
    soon(|| {
        let (runtime, pid, seen) = collects();
        pid.deliver(Package::new(pid, 1_u64)).unwrap();
        Receiver::deliver(&runtime.host(), Package::new(pid, 2_u64)).unwrap();
        Node::this().deliver(Package::new(pid, 3_u64)).unwrap();
        Router::of_program().deliver(Package::new(pid, 4_u64)).unwrap();
        Router::new().deliver(Package::new(pid, 5_u64)).unwrap();
        runtime.send(pid, 6_u64).unwrap();
        eventually(|| seen.lock().unwrap().len() == 6);
        assert_eq!(*seen.lock().unwrap(), [1, 2, 3, 4, 5, 6]);
    });
}

#[test]
fn an_unknown_host_is_a_typed_refusal_with_the_package() {
    soon(|| {
        let (runtime, pid, seen) = collects();
        let other = Runtime::builder().workers(1).build().unwrap();
        let nowhere = at(this_node(), 60_000, pid);
        for refused in [
            Node::this().deliver(Package::new(nowhere, 1_u64)),
            Router::of_program().deliver(Package::new(nowhere, 1_u64)),
            Receiver::deliver(&runtime.host(), Package::new(nowhere, 1_u64)),
        ] {
            assert_eq!(number_in(refused.unwrap_err()), (1, SendFailure::UnknownHost(nowhere)));
        }
        // A host takes packages for its own processes only.
        assert_eq!(
            number_in(Receiver::deliver(&other.host(), Package::new(pid, 2_u64)).unwrap_err()),
            (2, SendFailure::UnknownHost(pid))
        );
        assert!(seen.lock().unwrap().is_empty());
    });
}

#[test]
fn an_unknown_node_is_a_typed_refusal_with_the_package() {
    soon(|| {
        let (runtime, pid, _) = collects();
        let far = at(elsewhere(), 0, pid);
        for refused in [
            Node::this().deliver(Package::new(far, 1_u64)),
            Router::of_program().deliver(Package::new(far, 1_u64)),
            Receiver::deliver(&runtime.host(), Package::new(far, 1_u64)),
            far.deliver(Package::new(far, 1_u64)),
        ] {
            assert_eq!(number_in(refused.unwrap_err()), (1, SendFailure::UnknownNode(far)));
        }
        let refused = runtime.send(far, 2_u64).unwrap_err();
        assert_eq!((refused.message, refused.reason), (2, SendFailure::UnknownNode(far)));
        assert!(!far.is_alive() && !far.kill() && !far.stop() && far.info().is_none());
        assert_eq!(far.join().wait(), ExitReason::NodeLost, "nothing is known of it");
    });
}

/// A connected engine gets packages as they were sent. If it refuses a package, the sender gets it back.
#[test]
fn an_engine_takes_the_packages_for_its_node_until_it_is_disconnected() {
    struct Engine(Mutex<Vec<(Pid, u64)>>);
    impl Receiver for Engine {
        fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
            let to = package.to();
            match package.take::<u64>() {
                Ok(13) => Err(Undeliverable { package: Package::new(to, 13_u64), reason: SendFailure::Full(to) }),
                Ok(number) => {
                    self.0.lock().unwrap().push((to, number));
                    Ok(())
                }
                Err(package) => Err(Undeliverable { package, reason: SendFailure::Gone(to) }),
            }
        }
    }
    impl Transport for Engine {}
    soon(|| {
        let (runtime, pid, _) = collects();
        // This node is used by no other test.
        let node = NodeId::new(this_node().get() ^ 2).or(NodeId::new(4)).unwrap();
        let (far, engine) = (at(node, 0, pid), Arc::new(Engine(Mutex::default())));
        Router::of_program().connect(node, engine.clone());
        runtime.send(far, 1_u64).unwrap();
        far.deliver(Package::new(far, 2_u64)).unwrap();
        assert_eq!(*engine.0.lock().unwrap(), [(far, 1), (far, 2)]);
        let refused = runtime.send(far, 13_u64).unwrap_err();
        assert_eq!((refused.message, refused.reason), (13, SendFailure::Full(far)));
        let refused = runtime.send(far, "text").unwrap_err();
        assert_eq!((refused.message, refused.reason), ("text", SendFailure::Gone(far)));
        assert!(Router::of_program().disconnect(node));
        assert!(!Router::of_program().disconnect(node));
        assert_eq!(runtime.send(far, 3_u64).unwrap_err().reason, SendFailure::UnknownNode(far));
    });
}

#[test]
fn a_package_for_a_dead_process_is_returned_by_every_receiver() {
    soon(|| {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let pid = runtime.spawn_process(idle_for_ever()).start().unwrap();
        let end = pid.join();
        assert!(pid.kill());
        drop(end.wait());
        for refused in [
            pid.deliver(Package::new(pid, 1_u64)),
            Receiver::deliver(&runtime.host(), Package::new(pid, 1_u64)),
            Node::this().deliver(Package::new(pid, 1_u64)),
            Router::of_program().deliver(Package::new(pid, 1_u64)),
        ] {
            assert_eq!(number_in(refused.unwrap_err()), (1, SendFailure::Gone(pid)));
        }
        assert_eq!(runtime.statistics().dead_letters.total(), 0, "what is refused is no dead letter");
    });
}

/// A message of a type that the process has no method for becomes a dead letter, intact, and the process survives.
#[test]
fn a_message_without_a_method_is_a_dead_letter_with_its_reason() {
    #[process]
    struct Narrow;
    #[process]
    impl Narrow {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn ping(&mut self) -> u64 {
            1
        }
    }
    soon(|| {
        let dead = Arc::new(Mutex::new(vec![]));
        let buries = dead.clone();
        let builder = Runtime::builder().workers(1).on_dead_letter(move |letter| {
            buries.lock().unwrap().push((letter.to, letter.reason, letter.message.take::<&str>().unwrap()));
        });
        let runtime = builder.build().unwrap();
        let narrow = runtime.spawn(Narrow).serve().unwrap();
        runtime.send(narrow.pid(), "what?").unwrap();
        assert_eq!(narrow.ping().wait(), Ok(1));
        assert_eq!(*dead.lock().unwrap(), [(narrow.pid(), postroom::inspect::DeadLetterReason::Unhandled, "what?")]);
        assert_eq!(runtime.statistics().dead_letters.unhandled, 1);
    });
}
