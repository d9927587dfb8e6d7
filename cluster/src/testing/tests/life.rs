//! Nodes that are cut off, paused, killed, or leave.

use super::*;
use postroom::test::sometimes;

/// A node that was paused for longer than its lease publishes nothing until it has a new lease. If it did, the broker's
/// check would fail. After the pause the node rejoins.
#[postroom::test(seeds = 20)]
fn a_paused_node_is_fenced_before_it_sends(sim: Sim) {
    let (broker, nodes) = three(&sim);
    let [a, b, c] = &nodes;
    broker.faults(BAD);
    let sink = a.host().spawn(Sink::default()).serve().unwrap();
    let ledger = Notes::default();
    let session = Box::new(b.session_with(a));
    let source = Source { pair: (1, 0), to: sink, ledger: ledger.clone(), session };
    let _running = b.host().spawn(source).send(0..2_000, Duration::from_millis(20)).unwrap();
    broker.pass(Duration::from_secs(1));
    let member_before = b.is_member();
    let time = Duration::from_millis(1 + sim.random() % 40_000);
    broker.pause(b, time);
    broker.pass(time);
    broker.pass(Duration::from_millis(300));
    assert!(member_before);
    if time > Duration::from_secs(15) {
        assert!(!b.is_member(), "it has slept for {time:?}");
    }
    sometimes!(time > Duration::from_secs(15), "it sleeps for longer than its lease");
    sometimes!(time < Duration::from_secs(5), "it keeps its lease");
    broker.settle(&[a, b, c]);
    assert_eq!(b.enter(|| sink.double(4).wait()), Ok(8));
}

/// A node that cannot reach the store fences itself, even if it reaches other nodes. After healing, all nodes see each
/// other.
#[postroom::test(seeds = 20)]
fn a_node_without_the_store_fences_itself(sim: Sim) {
    let (broker, nodes) = three(&sim);
    let [a, b, c] = &nodes;
    match sim.random() % 3 {
        0 => broker.partition(&[a], &[b, c]),
        1 => broker.partition_one_way(&[a], &[b, c]),
        _ => broker.partition_one_way(&[b, c], &[a]),
    }
    broker.pass(Duration::from_secs(16));
    assert!(!a.is_member());
    assert!(b.is_member() && c.is_member());
    broker.heal();
    broker.settle(&[a, b, c]);
    let sink = a.host().spawn(Sink::default()).serve().unwrap();
    assert_eq!(b.enter(|| sink.double(4).wait()), Ok(8));
    broker.rest(&[a, b, c]);
}

/// A node that leaves loses no message that it has accepted.
#[postroom::test(seeds = 20)]
fn a_node_that_leaves_loses_nothing(sim: Sim) {
    let (broker, nodes) = three(&sim);
    let [a, b, c] = &nodes;
    broker.faults(Faults { drop: 0.01, ..BAD });
    let ledger = Notes::default();
    let sinks = [b, c].map(|node| node.host().spawn(Sink { own: 0, ledger: ledger.clone() }).serve().unwrap());
    let mut accepted = 0;
    for (from, sink) in sinks.into_iter().enumerate() {
        let session = if from == 0 { a.session_with(b)() } else { a.session_with(c)() };
        for number in 0..sim.random() % 500 {
            a.enter(|| sink.take(from as u32, number).send()).unwrap();
            ledger.accepted((from as u32, 0), session, number);
            accepted += 1;
        }
    }
    a.leave().wait();
    broker.rest(&[b, c]);
    sim.advance(Duration::from_millis(1));
    ledger.check_order();
    assert_eq!(ledger.counts(), (accepted, accepted));
    assert_eq!(b.members().len(), 1, "it has left");
}

/// Nothing that happened before a node is killed keeps it from coming back, or the others from working.
#[postroom::test(seeds = 12)]
fn nodes_are_killed_and_come_back(sim: Sim) {
    let (broker, nodes) = three(&sim);
    let mut nodes = Vec::from(nodes);
    broker.faults(BAD);
    for _ in 0..3 {
        broker.trouble(&nodes.iter().collect::<Vec<_>>(), &[Trouble::Partition, Trouble::Pause]);
        broker.pass(Duration::from_millis(sim.random() % 5_000));
        let killed = nodes.swap_remove(sim.random() as usize % nodes.len());
        broker.kill(&killed);
        broker.pass(Duration::from_millis(sim.random() % 5_000));
        nodes.push(broker.join(builder(killed.name())));
        broker.heal();
    }
    let all: Vec<_> = nodes.iter().collect();
    broker.settle(&all);
    let sink = all[0].host().spawn(Sink::default()).serve().unwrap();
    assert!(all[1..].iter().all(|node| node.enter(|| sink.double(4).wait()) == Ok(8)));
    broker.pass(Duration::from_secs(20));
    assert!(all.iter().all(|node| node.members().len() == 2), "{:?}", all[0].members());
    broker.rest(&all);
}

/// An async test can await a join, and sessions with other nodes, without blocking a thread.
#[postroom::test(seeds = 10)]
async fn a_program_joins_as_in_production(sim: Sim) {
    let broker = Broker::simulated(&sim);
    let hosts = [(); 2].map(|()| sim.node());
    let a = builder("a").join_async(&hosts[0], broker.connect()).await.unwrap();
    let b = builder("b").join(&hosts[1], broker.connect()).unwrap();
    assert!(a.is_member() && b.is_member());
    assert!(a.wait_for_members_async(1, Duration::from_secs(10)).await);
    assert!(b.wait_for_members(1, Duration::from_secs(10)));
    assert!(!b.wait_for_members(2, Duration::from_secs(10)), "there is no third");
    let sink = b.node("a").unwrap().start::<Sink>("serve", payloads![]).await.unwrap();
    assert_eq!(sink.double(4).await, Ok(8));

    let silent = crate::memory::Broker::new().connect();
    let late = builder("c").join_within(Duration::from_secs(7)).join_async(&sim.node(), silent).await;
    let waited = Duration::from_secs(7);
    assert_eq!(late.unwrap_err(), crate::JoinError::Timeout { waited, attempts: Vec::new() });
}

/// The stale record of a node is not shown alongside its successor, though its loss takes a lease time to be detected.
/// (This once failed: both were shown, and the lost node came first.)
#[postroom::test(seeds = 20)]
fn a_node_that_was_restarted_replaces_what_is_left_of_it(sim: Sim) {
    let (broker, [a, b, c]) = three(&sim);
    let before = b.id();
    // The paused node does not return before the end of its lease.
    broker.pause(&b, Duration::from_secs(60));
    broker.faults(Faults { delay: Duration::from_millis(sim.random() % 50), ..Faults::default() });
    let successor = broker.join(builder("b"));
    let called = |node: &SimulatedNode, name: &str| -> Vec<_> {
        node.members().into_iter().filter(|member| member.name == name).map(|member| member.id).collect()
    };
    let others = [&a, &c];
    while !others.iter().all(|node| called(node, "b") == [successor.id()]) {
        others.iter().for_each(|node| assert!(called(node, "b").len() <= 1, "{:?}", node.members()));
        assert!(sim.elapsed() < Duration::from_secs(120), "it is not seen");
        sim.advance(Duration::from_millis(10));
    }
    sometimes!(others.iter().any(|node| node.knows(before)), "the loss is not found yet");
    assert!(others.iter().all(|node| node.node("b").unwrap().id() == successor.id()));
    while !successor.is_member() {
        sim.advance(Duration::from_millis(10));
    }
    assert!(called(&successor, "b").is_empty(), "nor does it see itself as another");
    while others.iter().any(|node| node.knows(before)) {
        assert!(sim.elapsed() < Duration::from_secs(120), "the loss is not found");
        sim.advance(Duration::from_millis(100));
    }
    broker.settle(&[&a, &c, &successor]);
    assert!(others.iter().all(|node| called(node, "b") == [successor.id()]));
}
