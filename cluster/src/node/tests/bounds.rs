//! Bounds on everything that may wait on a node for a peer or because of a peer. The limits are lower than those of
//! real nodes, and the limits of the sessions are small.
//!
//! Each test was seen to fail when its limit was not checked.

use super::asks::Gate;
use super::*;
use crate::session::{Config, LaneLimits};

const LENGTH: usize = 1_000;
const WINDOW: u64 = 128 << 10;
const QUEUE: u64 = 256 << 10;

#[process]
#[derive(Default)]
struct Laggard {
    count: u64,
}

#[process(remote)]
impl Laggard {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn put(&mut self, number: u64, filling: Vec<u8>) {
        let _ = filling;
        assert_eq!(number, self.count, "in order, none lost");
        self.count += 1;
    }

    #[message]
    fn count(&mut self) -> u64 {
        self.count
    }

    /// Fails with a long reason.
    #[message]
    fn burst(&mut self, length: u32) -> u64 {
        panic!("{}", "x".repeat(length as usize));
    }

    #[message]
    fn filled(&mut self, length: u32) -> Vec<u8> {
        vec![0; length as usize]
    }

    /// Keeps the process busy until the gate opens.
    #[message(local)]
    fn stand(&mut self, gate: Arc<Gate>) {
        gate.pass();
    }
}

/// Returns two nodes whose sessions have little room.
fn two() -> (Nodes, [Node; 2]) {
    two_with(64 << 10)
}

/// Like [`two`], with messages of at most this length.
fn two_with(message: usize) -> (Nodes, [Node; 2]) {
    let nodes = Nodes::new();
    let lane = LaneLimits { window: WINDOW, queue: QUEUE, message };
    let config = Config { data: lane, ..Config::default() };
    let two = ["eu-1", "eu-2"].map(|name| nodes.join_as(name, |builder| builder.export::<Laggard>().sessions(config)));
    for node in &two {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
    }
    (nodes, two)
}

/// The messages stored for a single slow process may already exceed the limit for all processes together. The other
/// node then gets no more credit until the processes continue. No message is lost.
#[test]
fn what_is_kept_for_all_slow_processes_has_a_limit() {
    const LIMIT: u64 = 512 << 10;
    const LAGGARDS: usize = 8;
    let (nodes, [one, two]) = two();
    nodes.lock().machines[1].delivery.as_mut().unwrap().limit_kept(LIMIT);
    let account = start(&one, "eu-2", 0);
    let gate = Arc::new(Gate::default());
    let laggards = [(); LAGGARDS].map(|()| {
        let laggard = two.runtime.spawn(Laggard::default()).mailbox(Bound::Hard(4, Overflow::Refuse)).serve().unwrap();
        laggard.stand(Arc::clone(&gate)).send().unwrap();
        laggard
    });
    until("all stand", || gate.waiting() == LAGGARDS as u64);
    let mut sent = [0; LAGGARDS];
    loop {
        let before = sent;
        for (laggard, sent) in laggards.iter().zip(&mut sent) {
            while on(&one, || laggard.put(*sent, vec![0; LENGTH]).send()).is_ok() {
                *sent += 1;
            }
        }
        if sent == before {
            break;
        }
        nodes.pass(Duration::from_secs(1));
    }
    let accepted = sent.iter().sum::<u64>() * LENGTH as u64;
    // The sum of the limits, the mailboxes, and one message beyond each of the three limits.
    let most = LIMIT + WINDOW + QUEUE + (4 * LAGGARDS + 3) as u64 * LENGTH as u64;
    assert!((LIMIT..=most).contains(&accepted), "{accepted} of {most}: {sent:?}");
    // Once the rest of the queue is full too, senders to all processes of the node are refused.
    let mut deposits = 0;
    let refused = loop {
        match on(&one, || account.deposit(1).send()) {
            Ok(()) => deposits += 1,
            Err(refused) => break refused.reason,
        }
        assert!(deposits < LENGTH, "there is no end of it");
    };
    assert_eq!(refused, SendFailure::Full(account.pid()));

    gate.open();
    for (laggard, sent) in laggards.iter().zip(sent) {
        until("all are taken", || on(&one, || laggard.count().wait()) == Ok(sent));
    }
    assert_eq!(on(&one, || account.deposit(1).wait()), Ok(deposits as i64 + 1));
    assert_eq!([&one, &two].map(losses), [crate::Statistics::default(); 2]);
}

/// A peer that calls but takes no answers loses its session. Both sides notice the loss, and the next session begins
/// empty.
#[test]
fn a_peer_that_takes_no_answers_to_its_calls_loses_its_session() {
    const LIMIT: usize = 512 << 10;
    const ANSWER: u32 = 40_000;
    const CALLS: usize = 40;
    let (nodes, [one, two]) = two();
    let laggard = two.runtime.spawn(Laggard::default()).mailbox(Bound::Unbounded).serve().unwrap();
    let observer = one.runtime.spawn(Observer::default()).serve().unwrap();
    observer.watch(laggard.pid()).wait().unwrap();
    assert_eq!(on(&one, || laggard.count().wait()), Ok(0));
    two.cluster.peer(one.cluster.id()).unwrap().limit_owed(LIMIT);
    // While the node has no delivery, no message that reaches it is handled.
    let delivery = nodes.lock().machines[0].delivery.take();
    let here = postroom::routing::Node::of(one.cluster.id()).unwrap();
    let call = || std::thread::spawn(move || here.enter(|| laggard.filled(ANSWER).timeout(Duration::MAX).wait()));
    // All calls have arrived before the first is answered, since the session may end with the first answer.
    let gate = Arc::new(Gate::new());
    laggard.stand(Arc::clone(&gate)).send().unwrap();
    until("it stands", || gate.waiting() == 1);
    let calls: Vec<_> = (0..CALLS).map(|_| call()).collect();
    until("all are there", || laggard.pid().info().is_some_and(|info| info.mailbox == CALLS as u64));
    gate.open();
    until("the session ends", || two.cluster.statistics().floods == 1);
    assert!(two.cluster.statistics().unconfirmed > 0);
    nodes.lock().machines[0].delivery = delivery;
    let answers: Vec<_> = calls.into_iter().map(|call| call.join().unwrap()).collect();
    // Answers that had arrived before the session ended are handled.
    let lost = answers.iter().filter(|answer| **answer == Err(CallError::Died(ExitReason::NodeLost))).count();
    let taken = answers.iter().filter(|answer| answer.as_ref().is_ok_and(|bytes| bytes.len() == ANSWER as usize));
    assert_eq!(lost + taken.count(), CALLS, "{answers:?}");
    assert!(lost >= CALLS - 1 - WINDOW as usize / ANSWER as usize, "{lost}");

    for node in [&one, &two] {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
    }
    assert_eq!(on(&one, || laggard.filled(ANSWER).wait()).map(|bytes| bytes.len()), Ok(ANSWER as usize));
    assert_eq!(observer.heard().wait().unwrap(), ["down: its node was lost"]);
    assert_eq!([&one, &two].map(|node| node.cluster.statistics().floods), [0, 1]);
}

/// The messages that are accepted before the session opens exceed the limit on what a node may owe.
///
/// Catches: a node that treats its own waiting messages as a flood, and ends the session.
#[test]
fn what_waits_for_a_session_to_open_is_no_flood() {
    const LIMIT: usize = 512 << 10;
    let (nodes, [one, two]) = two();
    let laggard = two.runtime.spawn(Laggard::default()).mailbox(Bound::Unbounded).serve().unwrap();
    let observer = one.runtime.spawn(Observer::default()).serve().unwrap();
    assert_eq!(on(&one, || laggard.count().wait()), Ok(0));
    // The next session begins, but does not open.
    let driver = nodes.lock().machines[1].driver.take();
    let peer = || one.cluster.peer(two.cluster.id());
    let before = peer().unwrap();
    before.abort();
    until("the next begins", || peer().is_some_and(|peer| !Arc::ptr_eq(&peer, &before)));
    nodes.lock().is_still = true;
    let next = peer().unwrap();
    next.limit_owed(LIMIT);
    let count = 1_000;
    for number in 0..count {
        until("it is accepted", || on(&one, || laggard.put(number, vec![0; LENGTH]).send()).is_ok());
    }
    // The session opens, but no message that arrives is handled.
    let delivery = nodes.lock().machines[1].delivery.take();
    nodes.lock().machines[1].driver = driver;
    nodes.lock().is_still = false;
    until("it is open", || next.agreement().is_some());
    observer.watch(laggard.pid()).wait().unwrap();
    nodes.lock().machines[1].delivery = delivery;
    until("all have arrived", || on(&one, || laggard.count().wait()) == Ok(count));
    assert_eq!([&one, &two].map(|node| node.cluster.statistics().floods), [0, 0]);
    assert_eq!(observer.heard().wait().unwrap(), Vec::<String>::new());
}

/// Catches: a caller that is never answered because the reason of the failure is too long to send.
#[test]
fn a_failure_that_is_too_long_to_travel_is_told_without_its_reason() {
    const MESSAGE: usize = 2_000;
    let (_nodes, [one, two]) = two_with(MESSAGE);
    let laggard = two.runtime.spawn(Laggard::default()).serve().unwrap();
    let answer = on(&one, || laggard.burst(3_000).wait());
    assert!(matches!(answer, Err(CallError::AnswerTooLong { limit: MESSAGE, .. })), "{answer:?}");
}
