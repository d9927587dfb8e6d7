//! Stops, cancels and kills between two nodes.

use super::wire::with_pair;
use postroom::prelude::*;
use postroom::routing::{ControlMessage, Node};
use postroom_tests::partner::Partner;

/// A way to end a process.
type End = fn(Pid) -> bool;

#[test]
fn a_process_elsewhere_is_stopped_cancelled_and_killed() {
    with_pair(|pair| {
        let ways: [(End, ExitReason); 3] = [
            (Pid::stop, ExitReason::Normal),
            (|pid| pid.cancel("enough"), ExitReason::from("enough")),
            (Pid::kill, ExitReason::Killed),
        ];
        for (end, reason) in ways {
            let it = pair.there.spawn(Partner::default()).serve().unwrap().pid();
            let ended = it.join();
            assert!(pair.as_here(|| end(it)), "the transport has taken it");
            assert!(pair.net.under_way() == 1 && it.is_alive(), "it goes no other way");
            pair.net.pump();
            assert_eq!(ended.wait(), reason);
        }
    });
}

#[test]
fn a_control_that_comes_too_late_or_to_the_wrong_node_ends_nothing() {
    with_pair(|pair| {
        let it = pair.there.spawn(Partner::default()).serve().unwrap().pid();
        let (here, there) = pair.nodes();
        assert!(!Node::of(here).unwrap().control(it, ControlMessage::Kill));
        let there = Node::of(there).unwrap();
        let ended = it.join();
        assert!(there.control(it, ControlMessage::Stop));
        ended.wait();
        assert!(!there.control(it, ControlMessage::Stop) && !there.control(it, ControlMessage::Kill));
    });
}

/// Code of one node cannot inspect, name or group a process that only another node knows, even if both nodes are in one
/// program. A test observes all nodes, and can.
#[test]
fn what_only_one_node_knows_is_not_there_for_the_other() {
    with_pair(|pair| {
        let it = pair.there.spawn(Partner::default()).serve().unwrap();
        let pid = it.pid();
        assert!(pid.is_alive() && pid.info().is_some(), "a test observes all nodes");
        pair.as_here(|| {
            assert!(!pid.is_alive() && pid.info().is_none() && pid.bindings().wait().is_none());
            assert!(Host::of(pid).is_none());
            assert!(pair.here.address::<Partner>(pid).is_err());
            assert!(pair.here.register_name("elsewhere", pid).is_err());
            assert!(pair.here.group("elsewhere").join(pid).is_err());
        });
        assert!(Host::of(pid) == Some(pair.there.host()));
    });
}
