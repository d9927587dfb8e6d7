//! Many nodes. The cost of a node is counted in messages and bytes, not in time.

use super::*;
use crate::JoinError;
use crate::lease::Timing;
use crate::membership;
use crate::session::KEEPALIVE;
use postroom::test::Simulation;
use std::sync::{Arc, Mutex};

/// The time for which the idle cluster is observed: several keepalives, and several renewals of leases.
const WATCHED: Duration = Duration::from_secs(30);

/// Returns the average cost of an idle node in [`WATCHED`], in a cluster of `count` nodes: messages and bytes to
/// others, requests to the store and reports from it, turns of the driver, and how many times the driver checks another
/// node.
fn idle_costs(sim: &Sim, count: usize) -> [u64; 6] {
    let broker = Broker::simulated(sim);
    let nodes: Vec<_> = (0..count).map(|number| broker.join(builder(&format!("n{number}")))).collect();
    let all: Vec<_> = nodes.iter().collect();
    broker.settle(&all);
    for node in &nodes {
        assert_eq!(node.members().len(), count - 1);
    }
    // Lets the remaining messages of the joins be sent.
    broker.pass(Duration::from_secs(10));
    let costs = || {
        let sum = |of: fn(&crate::testing::Traffic) -> u64| nodes.iter().map(|node| of(&node.traffic())).sum::<u64>();
        let work = |at: usize| nodes.iter().map(|node| node.work()[at]).sum::<u64>();
        [sum(|t| t.messages), sum(|t| t.bytes), sum(|t| t.requests), sum(|t| t.reports), work(0), work(1)]
    };
    let before = costs();
    broker.pass(WATCHED);
    let after = costs();
    std::array::from_fn(|at| (after[at] - before[at]) / count as u64)
}

/// Returns the sizes of the clusters, or those that the environment sets.
fn sizes() -> Vec<usize> {
    let asked = std::env::var("POSTROOM_NODES").ok();
    asked.map_or(vec![4, 12], |text| text.split(',').map(|size| size.trim().parse().unwrap()).collect())
}

/// The messages from a node to each other node, and its requests to the store, do not depend on the number of nodes:
/// there is one question and one answer for each keepalive of a session. The reports of the store to a node grow with
/// the number of nodes, since each renewal of a lease is reported to all. A node's driver checks a peer only when the
/// peer has something to do, not in each of its turns.
///
/// Mutation: make `Agenda::take` return all peers that have a timeout.
#[test]
fn the_cost_of_a_node_is_flat_for_each_other() {
    let rounds = WATCHED.as_secs() / KEEPALIVE.as_secs();
    let renewals = (WATCHED.as_millis() / Timing::default().renew.as_millis()) as u64;
    // A node probes two neighbours, and each of them two and a half times a second.
    let probes = 5 * WATCHED.as_secs();
    for size in sizes() {
        let costs = Arc::new(Mutex::new([0; 6]));
        let noted = Arc::clone(&costs);
        let simulation = Simulation::new("many nodes").seed(1).max_turns(100_000_000);
        simulation.run(move |sim: Sim| *noted.lock().unwrap() = idle_costs(&sim, size));
        let [messages, bytes, requests, reports, turns, looks] = *costs.lock().unwrap();
        println!("{size} nodes, each: {messages} messages, {bytes} bytes, {requests} requests, {reports} reports");
        println!("{size} nodes, each: {turns} turns, {looks} looks at a peer");
        let (size, others) = (size as u64, size as u64 - 1);
        assert!(messages > 0 && messages <= 2 * (rounds + 1) * others, "{messages} messages");
        // The driver may check a peer a few times for each frame, however many turns it has.
        assert!(looks > 0 && looks <= 3 * messages, "{looks} looks at a peer in {turns} turns");
        assert!(bytes <= 64 * messages, "{bytes} bytes");
        assert!(requests <= renewals + 1 + probes, "{requests} requests");
        assert!(reports <= (renewals + 1) * size, "{reports} reports");
    }
}

/// A node that finds the cluster full is refused, and leaves nothing behind. A node that was a member may come back.
#[postroom::test(seeds = 10)]
fn a_node_too_many_is_refused(sim: Sim) {
    let broker = Broker::simulated(&sim);
    broker.faults(Faults { delay: Duration::from_millis(50), ..Faults::default() });
    let limited = |name: &str| builder(name).max_nodes(2);
    let joins: Vec<_> =
        ["a", "b", "c", "d"].into_iter().map(|name| limited(name).join_async(&sim.node(), broker.connect())).collect();
    let joined: Vec<_> = joins.into_iter().map(crate::Pending::wait).collect();
    let refused = |joined: &&Result<Cluster, JoinError>| {
        matches!(joined, Err(JoinError::Membership(membership::JoinRefusal::Full { limit: 2 })))
    };
    assert_eq!(joined.iter().filter(refused).count(), 2, "{joined:?}");
    broker.pass(Duration::from_secs(20));
    let members: Vec<_> = joined.iter().flatten().map(|cluster| cluster.members().len()).collect();
    assert_eq!(members, [1, 1]);
    // Once one of the two members has left, there is room.
    let stays: Vec<_> = joined.into_iter().flatten().skip(1).collect();
    broker.pass(Duration::from_secs(10));
    let e = limited("e").join_async(&sim.node(), broker.connect()).wait().unwrap();
    assert!(e.wait_for_members(1, Duration::from_secs(30)), "{:?}", stays[0].members());
}
