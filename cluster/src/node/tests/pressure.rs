//! Senders whose messages find no room at a node, or at one of its processes. The limits of the sessions are small, and
//! the nodes stand still while their world is locked, so the speed of the machine does not determine which senders
//! wait.
//!
//! The tests were seen to fail with each of these defects: `Overflow::room` returns nothing; rooms are not passed on,
//! or not at the end of a session; `admit_beyond` is unbounded; sends overtake waiting messages; the peer is not
//! notified of a slow process, or its catching up is not recorded; losses are not counted.

use super::*;
use crate::session::{Config, LaneLimits};
use postroom::inspect::ProcessState;
use std::sync::atomic::AtomicUsize;

/// Each message to [`Sink`] is longer than this.
const LENGTH: usize = 4_000;
/// Number of bytes that may wait in the session; as many again may wait beyond it.
const QUEUE: u64 = 256 << 10;

#[process]
#[derive(Default)]
struct Sink {
    numbers: Vec<u64>,
}

#[process(remote)]
impl Sink {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn put(&mut self, number: u64, filling: Vec<u8>) {
        let _ = filling;
        self.numbers.push(number);
    }

    #[message]
    fn count(&mut self) -> usize {
        self.numbers.len()
    }

    #[message]
    fn numbers(&mut self) -> Vec<u64> {
        self.numbers.clone()
    }
}

/// A process that sends to another node: one message for each that it receives.
#[process]
struct Source {
    sink: Address<Sink>,
    next: u64,
    /// Counts the accepted messages.
    sent: Arc<AtomicUsize>,
    refused: Option<SendFailure>,
}

#[process]
impl Source {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn go(&mut self) {
        match self.sink.put(self.next, vec![0; LENGTH]).send() {
            Ok(()) => {
                self.next += 1;
                self.sent.fetch_add(1, Ordering::Relaxed);
            }
            Err(refused) => self.refused = Some(refused.reason),
        }
    }

    /// Sends all in one step.
    #[message]
    fn flood(&mut self, count: usize) {
        (0..count).for_each(|_| self.go());
    }

    #[message]
    fn attempt(&mut self) -> Result<(), SendFailure> {
        self.sink.put(self.next, vec![0; LENGTH]).try_send().map_err(|refused| refused.reason)?;
        self.next += 1;
        Ok(())
    }

    #[message]
    async fn patient(&mut self) -> Result<(), SendFailure> {
        let number = self.next;
        self.next += 1;
        self.sink
            .put(number, vec![0; LENGTH])
            .timeout(Duration::MAX)
            .send_async()
            .await
            .map_err(|refused| refused.reason)
    }

    #[message]
    fn refused(&mut self) -> Option<SendFailure> {
        self.refused
    }
}

struct Sent {
    source: Address<Source>,
    sent: Arc<AtomicUsize>,
}

fn source(node: &Node, sink: Address<Sink>) -> Sent {
    let sent = Arc::<AtomicUsize>::default();
    let source = Source { sink, next: 0, sent: Arc::clone(&sent), refused: None };
    Sent { source: node.runtime.spawn(source).mailbox(Bound::Unbounded).serve().unwrap(), sent }
}

impl Sent {
    fn count(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns whether the source is suspended at `at`. It is suspended there repeatedly, since it still has more to
    /// send when the longest suspension is over.
    fn is_suspended_at(&self, at: Pid) -> bool {
        self.source.pid().info().is_some_and(|info| info.state == ProcessState::Suspended { at })
    }
}

/// Returns two nodes whose sessions have little room.
fn two() -> (Nodes, [Node; 2]) {
    let nodes = Nodes::new();
    let lane = LaneLimits { window: 128 << 10, queue: QUEUE, message: 64 << 10 };
    let config = Config { data: lane, ..Config::default() };
    let two = ["eu-1", "eu-2"].map(|name| nodes.join_as(name, |builder| builder.export::<Sink>().sessions(config)));
    for node in &two {
        assert!(node.cluster.wait_for_members(1, Duration::from_secs(60)));
    }
    (nodes, two)
}

fn sink(node: &Node) -> Address<Sink> {
    node.runtime.spawn(Sink::default()).serve().unwrap()
}

fn in_order(numbers: Vec<u64>) -> bool {
    numbers.iter().enumerate().all(|(place, number)| place as u64 == *number)
}

#[test]
fn a_process_is_suspended_at_a_node_without_room_and_goes_on_in_order() {
    let (nodes, [one, two]) = two();
    let sink = sink(&two);
    let sent = source(&one, sink);
    let world = nodes.lock();
    const ALL: usize = 1_000;
    (0..ALL).for_each(|_| sent.source.go().send().unwrap());
    until("it is suspended", || sent.is_suspended_at(sink.pid()));
    // It has sent as many as fit, one more for which it is suspended, and at most one further message for each second
    // that it has waited.
    let fits = QUEUE as usize / (LENGTH + 64);
    assert!((fits - 4..2 * fits).contains(&sent.count()), "{} of {fits}", sent.count());
    let full = SendFailure::Full(sink.pid());
    on(&one, || {
        assert_eq!(sink.put(0, vec![0; LENGTH]).send().unwrap_err().reason, full, "a thread is refused");
        let limit = sink.put(0, vec![0; LENGTH]).timeout(Duration::from_millis(1)).send_wait();
        assert_eq!(limit.unwrap_err().reason, full, "or waits until its deadline");
    });
    drop(world);
    until("all have arrived", || sink.count().wait() == Ok(ALL));
    assert!(in_order(sink.numbers().wait().unwrap()));
    assert_eq!(sent.source.refused().wait(), Ok(None));
    assert_eq!([&one, &two].map(losses), [crate::Statistics::default(); 2]);
}

/// One step sends more than may be accepted beyond the bound: the process waits inside the step.
#[test]
fn a_step_that_sends_without_end_waits_itself() {
    let (nodes, [one, two]) = two();
    let sink = sink(&two);
    let sent = source(&one, sink);
    let world = nodes.lock();
    const ALL: usize = 2_000;
    sent.source.flood(ALL).send().unwrap();
    until("it waits", || sent.is_suspended_at(sink.pid()));
    let most = 2 * QUEUE as usize / LENGTH + 1;
    assert!(sent.count() <= most, "{} of {most}", sent.count());
    drop(world);
    until("all have arrived", || sink.count().wait() == Ok(ALL));
    assert!(in_order(sink.numbers().wait().unwrap()));
}

#[test]
fn those_that_try_are_refused_and_those_that_wait_are_woken() {
    let (nodes, [one, two]) = two();
    let sink = sink(&two);
    let (floods, tries, waits) = (source(&one, sink), source(&one, sink), source(&one, sink));
    let world = nodes.lock();
    floods.source.flood(200).send().unwrap();
    until("it is full", || floods.is_suspended_at(sink.pid()));
    assert_eq!(tries.source.attempt().wait(), Err(CallError::Failed(SendFailure::Full(sink.pid()))));
    let node = postroom::routing::Node::of(one.cluster.id()).unwrap();
    let thread =
        std::thread::spawn(move || node.enter(|| sink.put(0, vec![0; LENGTH]).timeout(Duration::MAX).send_wait()));
    let patient = waits.source.patient();
    let patient = std::thread::spawn(move || patient.timeout(Duration::MAX).wait());
    until("it is waited for", || waits.source.pid().info().is_some_and(|info| info.messages == 1));
    assert!(!thread.is_finished() && !patient.is_finished());
    drop(world);
    until("both were woken", || thread.is_finished() && patient.is_finished());
    assert_eq!(thread.join().unwrap().map_err(|refused| refused.reason), Ok(()));
    assert_eq!(patient.join().unwrap(), Ok(()));
    until("all have arrived", || sink.count().wait() == Ok(202));
}

#[test]
fn a_suspended_process_is_killed_and_cancelled_as_any_other() {
    let (nodes, [one, two]) = two();
    let sink = sink(&two);
    let ended: [fn(Pid) -> bool; 2] = [|pid| pid.kill(), |pid| pid.cancel("enough")];
    let world = nodes.lock();
    for end in ended {
        let sent = source(&one, sink);
        (0..1_000).for_each(|_| sent.source.go().send().unwrap());
        until("it is suspended", || sent.is_suspended_at(sink.pid()));
        let late = sent.source.refused().timeout(Duration::from_millis(1)).wait();
        assert_eq!(late, Err(CallError::Timeout), "a call to it has its deadline");
        let pid = sent.source.pid();
        assert!(end(pid));
        until("it has ended", || !pid.is_alive());
    }
    drop(world);
}

/// No accepted message is lost without being counted, and each sender learns of the loss.
#[test]
fn the_loss_of_a_node_releases_all_that_wait_for_it() {
    let (nodes, [one, two]) = two();
    let sink = sink(&two);
    let sources: Vec<_> = (0..20).map(|_| source(&one, sink)).collect();
    let world = nodes.lock();
    for sent in &sources {
        (0..100).for_each(|_| sent.source.go().send().unwrap());
    }
    until("all are suspended", || sources.iter().all(|sent| sent.is_suspended_at(sink.pid())));
    let node = postroom::routing::Node::of(one.cluster.id()).unwrap();
    let waits =
        std::thread::spawn(move || node.enter(|| sink.put(0, vec![0; LENGTH]).timeout(Duration::MAX).send_wait()));
    two.client.disconnect();
    drop(world);
    let lost = SendFailure::UnknownNode(sink.pid());
    until("a thread that waits is released", || waits.is_finished());
    assert_eq!(waits.join().unwrap().unwrap_err().reason, lost);
    for sent in &sources {
        until("it hears of the loss", || sent.source.refused().wait() == Ok(Some(lost)));
        until("it is at rest", || sent.source.pid().info().unwrap().state == ProcessState::Idle);
    }
    let accepted: usize = sources.iter().map(Sent::count).sum();
    let unconfirmed = one.cluster.statistics().unconfirmed as usize;
    let arrived = sink.count().wait().unwrap();
    assert!(arrived + unconfirmed >= accepted, "{arrived} arrived, {unconfirmed} unconfirmed, {accepted} accepted");
    assert!(unconfirmed <= accepted + 1, "{unconfirmed} of {accepted}, and what a thread has sent");
}

/// Senders to the slow process wait, and senders to others on its node do not.
#[test]
fn a_process_that_has_fallen_behind_holds_up_its_own_senders_alone() {
    let (_nodes, [one, two]) = two();
    let slow = two.runtime.spawn(Slow::default()).mailbox(Bound::Hard(4, Overflow::Refuse)).serve().unwrap();
    let gate = Arc::new(AtomicBool::new(false));
    slow.stand(Arc::clone(&gate)).send().unwrap();
    let account = start(&one, "eu-2", 0);
    let sent = Arc::<AtomicUsize>::default();
    const ALL: u64 = 30_000;
    let floods = one.runtime.spawn(Floods { slow, next: 0, sent: Arc::clone(&sent) }).mailbox(Bound::Unbounded);
    let floods = floods.serve().unwrap();
    (0..ALL / 100).for_each(|_| floods.send_some(100).send().unwrap());
    let is_suspended = || floods.pid().info().unwrap().state == ProcessState::Suspended { at: slow.pid() };
    // The sender first waits for the session, which is full at times. Once nothing moves any more, it waits for the
    // process.
    let mut before = usize::MAX;
    until("its sender waits for it", || {
        let is_still = is_suspended() && before == sent.load(Ordering::Relaxed);
        before = sent.load(Ordering::Relaxed);
        is_still && on(&one, || account.deposit(1).wait()).is_ok() && before == sent.load(Ordering::Relaxed)
    });
    // The sum of the mailbox, the messages stored on the other node until the sender is notified, those in flight by
    // then, and those accepted beyond the bound.
    let most = 4 + 1_024 + (2 * QUEUE + (128 << 10)) as usize / 64 + 1_024;
    assert!(sent.load(Ordering::Relaxed) <= most, "{} of {most}", sent.load(Ordering::Relaxed));
    let refused = on(&one, || slow.take(0).send()).unwrap_err();
    assert_eq!(refused.reason, SendFailure::Full(slow.pid()));
    gate.store(true, Ordering::Relaxed);
    until("all are taken, in order", || on(&one, || slow.taken().wait()) == Ok(ALL));
    assert_eq!(losses(&two), crate::Statistics::default());
}

#[process]
struct Floods {
    slow: Address<Slow>,
    next: u64,
    sent: Arc<AtomicUsize>,
}

#[process]
impl Floods {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    fn send_some(&mut self, count: u64) {
        for _ in 0..count {
            self.slow.take(self.next).send().unwrap();
            self.next += 1;
            self.sent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A supervisor keeps more messages for a child on another node than the session accepts, even beyond its bound. The
/// rest waits in order, and is not lost.
///
/// Mutation: in `ChildSlot::hand_over`, make messages without room dead letters; or in `RoomWait::resume`, notify no
/// one.
#[test]
fn what_is_kept_for_a_child_waits_for_room_on_the_way_to_it() {
    let (nodes, [one, two]) = two();
    let there = one.cluster.node("eu-2").unwrap();
    let child = Child::new("sink", move |spawn| spawn.on(&there).start::<Sink>("serve", payloads![]));
    let world = nodes.lock();
    // The child is not started while the nodes stand still.
    let tree = Supervisor::one_for_one().add(child.keep_messages()).spawn(&one.runtime).unwrap();
    let sink: Address<Sink> = tree.child("sink").unwrap();
    const ALL: u64 = 400;
    const { assert!(ALL as usize * LENGTH > 2 * QUEUE as usize) };
    on(&one, || (0..ALL).for_each(|number| sink.put(number, vec![0; LENGTH]).send().unwrap()));
    drop(world);
    until("all have arrived", || on(&one, || sink.count().wait()) == Ok(ALL as usize));
    assert!(in_order(on(&one, || sink.numbers().wait()).unwrap()));
    assert_eq!(one.runtime.statistics().dead_letters.total(), 0);
    assert!(sink.pid().resolve().is_some_and(|pid| pid.node() == two.cluster.id()));
}

/// A message that is too long is refused with its length and the limit, and returned.
///
/// Mutation: make `Refusal::into_failure` report it as not remote, or change one of the numbers.
#[test]
fn a_message_that_is_too_long_is_refused_with_its_length_and_the_limit() {
    let nodes = Nodes::new();
    let lane = LaneLimits { window: 128 << 10, queue: QUEUE, message: 4_096 };
    let config = Config { data: lane, ..Config::default() };
    let [one, two] =
        ["eu-1", "eu-2"].map(|name| nodes.join_as(name, |builder| builder.export::<Sink>().sessions(config)));
    assert!(one.cluster.wait_for_members(1, Duration::from_secs(60)));
    let sink = sink(&two);
    let put = |length: usize| on(&one, || sink.put(7, vec![1; length]).send());
    put(4_000).unwrap();
    let refused = put(5_000).unwrap_err();
    let SendFailure::TooLong { bytes, limit } = refused.reason else { panic!("{refused}") };
    assert!((5_001..5_100).contains(&bytes) && limit == 4_096, "{bytes} bytes, {limit}");
    assert_eq!((refused.message.number, refused.message.filling.len()), (7, 5_000));
    let text = refused.reason.to_string();
    assert!(text.contains(&bytes.to_string()) && text.contains("4096"), "{text}");
    let called = on(&one, || sink.put(7, vec![1; 5_000]).wait());
    assert!(matches!(called, Err(CallError::TooLong { bytes, limit: 4_096 }) if bytes > 5_000), "{called:?}");
    assert_eq!(on(&one, || sink.count().wait()), Ok(1));
}

/// The list of a group's members is a single message, so a group has no more members than fit into one.
///
/// Mutation: leave out `limit_lists`.
#[test]
fn a_group_has_as_many_members_as_fit_into_a_message() {
    let nodes = Nodes::new();
    let lane = LaneLimits { window: 128 << 10, queue: QUEUE, message: 4_096 };
    let config = Config { data: lane, ..Config::default() };
    let [one, two] = ["eu-1", "eu-2"].map(|name| nodes.join_as(name, |builder| builder.sessions(config)));
    assert!(one.cluster.wait_for_members(1, Duration::from_secs(60)));
    let name = "g".repeat(1_024);
    let (here, there) = (one.cluster.group(&*name), two.cluster.group(&*name));
    let mut members = Vec::new();
    let refused = loop {
        let member = one.runtime.spawn(Observer::default()).serve().unwrap().pid();
        match here.join(member) {
            Ok(_) => members.push(member),
            Err(refused) => break refused,
        }
        assert!(members.len() < 4_096 / 16, "more than fit");
    };
    assert_eq!(refused, crate::groups::MembershipError::Full { limit: members.len() });
    assert!(members.len() > 150, "{}", members.len());
    members.sort();
    until("all are known there", || there.members().wait() == Ok(members.clone()));
    assert_eq!(one.cluster.statistics().missed, 0);
}
