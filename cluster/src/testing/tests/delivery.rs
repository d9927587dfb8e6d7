//! Messages and calls between nodes.

use super::*;
use postroom::test::sometimes;

const MILLISECOND: Duration = Duration::from_millis(1);

/// Spawns a source on each node for a sink on each other node. Returns what is needed to check their records.
fn traffic(nodes: &[SimulatedNode; 3], numbers: u64, pause: Duration) -> (Notes, Vec<(Pair, InSession)>) {
    let ledger = Notes::default();
    let mut pairs = Vec::new();
    for (to, there) in nodes.iter().enumerate() {
        let sink = there.host().spawn(Sink { own: to as u32, ledger: ledger.clone() }).serve().unwrap();
        for (from, here) in nodes.iter().enumerate().filter(|(from, _)| *from != to) {
            let (pair, session) = ((from as u32, to as u32), here.session_with(there));
            let source = Source { pair, to: sink, ledger: ledger.clone(), session: Box::new(session.clone()) };
            let _running = here.host().spawn(source).send(0..numbers, pause).unwrap();
            pairs.push((pair, Box::new(session) as InSession));
        }
    }
    (ledger, pairs)
}

/// Within a session, the messages of a pair arrive once, in order and without gaps, even if frames are lost, late,
/// repeated or cut off. Messages can be missing only at the end of a session that has ended.
#[postroom::test(seeds = 20)]
fn messages_of_a_session_arrive_in_order_and_once(sim: Sim) {
    let (broker, nodes) = three(&sim);
    let (ledger, pairs) = traffic(&nodes, 80, 400 * MILLISECOND);
    troubles(&sim, &broker, &nodes.each_ref(), &Trouble::ALL, 3);
    ledger.check_order();
    broker.pass(Duration::from_secs(45));
    broker.rest(&nodes.each_ref());
    sim.advance(MILLISECOND);
    for (pair, session) in pairs {
        ledger.check_at_rest(pair, session().as_ref());
    }
    let (accepted, handled) = ledger.counts();
    assert!(handled > 0);
    sometimes!(accepted == handled, "nothing is lost");
    sometimes!(accepted > handled, "a session ends with messages on their way");
}

/// Without a partition or a pause no session ends, however bad the network is, so no message is lost.
#[postroom::test(seeds = 12)]
fn a_bad_network_alone_loses_nothing(sim: Sim) {
    let (broker, nodes) = three(&sim);
    let epochs = |nodes: &[SimulatedNode; 3]| (nodes[0].session_with(&nodes[1])(), nodes[2].session_with(&nodes[1])());
    let before = epochs(&nodes);
    broker.faults(BAD);
    let (ledger, _) = traffic(&nodes, 40, 10 * MILLISECOND);
    broker.pass(Duration::from_secs(10));
    broker.rest(&nodes.each_ref());
    sim.advance(MILLISECOND);
    assert_eq!(epochs(&nodes), before);
    ledger.check_order();
    assert_eq!(ledger.counts(), (6 * 40, 6 * 40));
}

/// A call to another node ends once: with its answer, or because the session has ended.
#[postroom::test(seeds = 15)]
fn calls_end_once(sim: Sim) {
    let (broker, nodes) = three(&sim);
    let ends = Once::default();
    let sinks = nodes.each_ref().map(|node| node.host().spawn(Sink::default()).serve().unwrap());
    let mut callers = Vec::new();
    for (own, node) in nodes.iter().enumerate() {
        for to in sinks.iter().enumerate().filter(|(to, _)| *to != own).map(|(_, sink)| *sink) {
            let caller = Caller { own: callers.len() as u32, to, ends: ends.clone() };
            callers.push(node.host().spawn(caller).call(0..25, 400 * MILLISECOND).unwrap());
        }
    }
    troubles(&sim, &broker, &nodes.each_ref(), &Trouble::ALL, 3);
    for caller in callers {
        caller.wait().unwrap();
    }
    ends.check(true);
    assert_eq!(ends.counts(), (150, 150));
    broker.rest(&nodes.each_ref());
}

/// The messages that wait for an unreachable node are bounded, and further ones are refused.
#[postroom::test(seeds = 10)]
fn the_memory_of_a_sender_is_bounded(sim: Sim) {
    let broker = Broker::simulated(&sim);
    let mut config = crate::session::Config::default();
    (config.data.window, config.data.queue) = (70 << 10, 100 << 10);
    let [a, b] = ["a", "b"].map(|name| broker.join(builder(name).sessions(config)));
    broker.settle(&[&a, &b]);
    let sink = b.host().spawn(Sink::default()).serve().unwrap();
    if sim.random().is_multiple_of(2) {
        broker.pause(&b, Duration::from_secs(9))
    } else {
        broker.partition(&[&a], &[&b])
    }
    let mut refused = 0;
    for round in 0..20 {
        for number in 0..200 {
            refused += u32::from(a.enter(|| sink.take(0, number).send().is_err()));
        }
        assert!(a.books().bytes <= 128 << 10, "{:?} in round {round}", a.books());
        broker.pass(100 * MILLISECOND);
    }
    assert!(refused > 0);
    broker.heal();
    broker.settle(&[&a, &b]);
    broker.rest(&[&a, &b]);
    assert_eq!(a.enter(|| sink.double(2).wait()), Ok(4));
}
