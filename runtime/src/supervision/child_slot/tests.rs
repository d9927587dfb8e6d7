//! The races of a hand-over, one by one. Mailboxes play the processes, so that the test decides when they end.

use super::*;
use crate::NodeId;
use crate::api::builder::Builder;
use crate::api::mailbox::Mailbox;
use crate::api::runtime::Runtime;
use crate::links::message::SentLinkMessage;
use crate::links::protocol::LinkMessage;
use crate::routing::Transport;
use crate::routing::alias::Alias;
use crate::routing::router::Router;
use crate::routing::transport::Receiver;
use crate::sync::ThreadKind;
use crate::util::notifiers::tests::dropped_on;

/// A slot, and the runtime that gets its dead letters.
struct Bench {
    runtime: Runtime,
    slot: Arc<ChildSlot>,
    alias: Alias,
}

impl Bench {
    fn new(keeps: Option<usize>) -> Self {
        let runtime = Builder::new().workers(1).paused().build().unwrap();
        let slot = Arc::new(ChildSlot::new("child".into(), None, keeps, runtime.scheduler(), None));
        let alias = Alias::new(slot.clone());
        Self { runtime, slot, alias }
    }

    /// Sends a number to the child's address.
    fn send(&self, number: u64) -> Result<(), SendFailure> {
        crate::routing::router::send(self.alias.pid(), number).map_err(|(back, reason)| {
            assert_eq!(back, number);
            reason
        })
    }

    fn envelopes(&self) -> u64 {
        self.runtime.statistics().dead_letters.ended
    }
}

/// Takes the contents of the mailbox.
fn received(mailbox: &mut Mailbox) -> Vec<u64> {
    std::iter::from_fn(|| mailbox.try_receive()).map(|package| package.take::<u64>().unwrap()).collect()
}

/// Ends the process. Its unhandled messages go to the slot, in order.
fn ends(slot: &ChildSlot, mut mailbox: Mailbox) {
    let left: Vec<_> = std::iter::from_fn(|| mailbox.try_receive()).collect();
    let pid = mailbox.pid();
    drop(mailbox);
    slot.ending(pid);
    slot.quiesce();
    left.into_iter().for_each(|package| drop(slot.take_unhandled(package)));
}

#[test]
fn before_the_first_start_all_waits_and_after_it_goes_straight_to_the_process() {
    for keeps in [None, Some(9)] {
        let bench = Bench::new(keeps);
        bench.send(1).unwrap();
        let mut first = Mailbox::new().unwrap();
        assert!(bench.slot.up(first.pid()).is_none());
        bench.send(2).unwrap();
        assert_eq!(received(&mut first), [1, 2]);
        assert_eq!(bench.alias.pid().resolve(), Some(first.pid()));
    }
}

#[test]
fn what_the_dead_left_comes_before_what_was_sent_since() {
    let bench = Bench::new(Some(9));
    let first = Mailbox::new().unwrap();
    assert!(bench.slot.up(first.pid()).is_none());
    bench.send(1).unwrap();
    bench.send(2).unwrap();
    ends(&bench.slot, first);
    // Its supervisor has not been notified yet.
    bench.send(3).unwrap();
    bench.slot.down(&ExitReason::Killed);
    bench.send(4).unwrap();
    let mut second = Mailbox::new().unwrap();
    assert!(bench.slot.up(second.pid()).is_none());
    assert_eq!(received(&mut second), [1, 2, 3, 4]);
}

/// The successor exits while it is being sent the waiting messages: it leaves those that it got, and never gets the
/// rest.
#[test]
fn what_a_successor_leaves_comes_before_what_it_was_not_sent_any_more() {
    let bench = Bench::new(Some(9));
    (1..=4).for_each(|number| bench.send(number).unwrap());
    let second = Mailbox::new().unwrap();
    let pid = second.pid();
    // The steps of `up`, up to the third message.
    let waiting: Vec<_> = lock(&bench.slot.queue).kept.drain(..2).collect();
    for item in waiting {
        let KeptItem::Message(package) = item else { panic!("only messages were sent") };
        redeliver(pid, package).unwrap();
    }
    ends(&bench.slot, second);
    assert!(bench.slot.up(pid).is_none());
    bench.send(5).unwrap();
    bench.slot.down(&ExitReason::Killed);
    let mut third = Mailbox::new().unwrap();
    assert!(bench.slot.up(third.pid()).is_none());
    assert_eq!(received(&mut third), [1, 2, 3, 4, 5]);
}

/// Like the test above, but the messages that the successor leaves arrive while the rest is being sent to it. If they
/// counted as waiting messages, they would be queued behind later ones.
#[test]
fn what_a_successor_leaves_while_it_comes_up_is_not_taken_for_what_waits() {
    let bench = Bench::new(Some(9));
    bench.send(3).unwrap();
    let second = Mailbox::new().unwrap();
    let pid = second.pid();
    drop(second);
    bench.slot.take_unhandled(Package::new(pid, 1_u64)).unwrap();
    assert!(bench.slot.up(pid).is_none());
    bench.slot.take_unhandled(Package::new(pid, 2_u64)).unwrap();
    bench.slot.down(&ExitReason::Killed);
    let mut third = Mailbox::new().unwrap();
    assert!(bench.slot.up(third.pid()).is_none());
    assert_eq!(received(&mut third), [1, 2, 3]);
}

#[test]
fn a_process_that_ends_waits_for_those_who_were_given_its_pid() {
    let bench = Bench::new(Some(9));
    let first = Mailbox::new().unwrap();
    assert!(bench.slot.up(first.pid()).is_none());
    assert_eq!(bench.slot.enter(), Some(first.pid()));
    let (slot, pid) = (bench.slot.clone(), first.pid());
    let ending = std::thread::spawn(move || {
        slot.ending(pid);
        slot.quiesce();
    });
    while bench.slot.incarnation.load(Ordering::SeqCst) != 0 {
        yield_now();
    }
    assert_eq!(bench.slot.enter(), None, "nobody is given it any more");
    assert!(!ending.is_finished());
    bench.slot.left();
    ending.join().unwrap();
}

#[test]
fn without_keeping_what_is_sent_to_a_child_that_is_down_comes_back() {
    let bench = Bench::new(None);
    let first = Mailbox::new().unwrap();
    assert!(bench.slot.up(first.pid()).is_none());
    drop(first);
    assert_eq!(bench.send(1), Err(SendFailure::Restarting(bench.alias.pid())), "before its supervisor knows");
    bench.slot.down(&ExitReason::Killed);
    assert_eq!(bench.send(2), Err(SendFailure::Restarting(bench.alias.pid())));
}

/// Covers messages that waited for the first start of a child that cannot start and keeps no messages.
#[test]
fn a_first_start_that_fails_makes_dead_letters_of_what_waited_unless_it_is_kept() {
    for (keeps, envelopes) in [(None, 2), (Some(9), 0)] {
        let bench = Bench::new(keeps);
        bench.send(1).unwrap();
        bench.send(2).unwrap();
        bench.slot.down(&ExitReason::Killed);
        assert_eq!(bench.envelopes(), envelopes);
    }
}

#[test]
fn a_slot_that_is_shut_keeps_nothing_until_a_process_serves_again() {
    let bench = Bench::new(Some(9));
    bench.send(1).unwrap();
    bench.slot.shut(&ExitReason::Shutdown).tell(&ExitReason::Shutdown);
    assert_eq!((bench.envelopes(), bench.send(2)), (1, Err(SendFailure::Gone(bench.alias.pid()))));
    assert!(bench.slot.take_unhandled(Package::new(bench.alias.pid(), 3_u64)).is_err());
    let mut second = Mailbox::new().unwrap();
    assert!(bench.slot.up(second.pid()).is_none());
    bench.send(4).unwrap();
    assert_eq!(received(&mut second), [4]);
}

#[test]
fn the_bound_counts_what_was_sent_since_and_not_what_was_left() {
    let bench = Bench::new(Some(1));
    let first = Mailbox::new().unwrap();
    assert!(bench.slot.up(first.pid()).is_none());
    (1..=5).for_each(|number| bench.send(number).unwrap());
    ends(&bench.slot, first);
    bench.slot.down(&ExitReason::Killed);
    bench.send(6).unwrap();
    assert_eq!(bench.send(7), Err(SendFailure::Full(bench.alias.pid())));
}

#[test]
fn what_waits_when_nobody_is_left_is_dead_letters() {
    let Bench { runtime, slot, alias } = Bench::new(Some(9));
    crate::routing::router::send(alias.pid(), 1_u64).unwrap();
    drop((alias, slot));
    assert_eq!(runtime.statistics().dead_letters.ended, 1);
}

/// Catches: the error inside an exit reason is dropped by the cluster's thread that delivers the reason to the child.
#[test]
fn what_a_child_without_a_process_hears_of_an_end_is_not_dropped_on_a_thread_of_a_cluster() {
    let bench = Bench::new(None);
    let (alias, partner) = (bench.alias.pid(), Mailbox::new().unwrap());
    let kind = dropped_on(|reason| {
        let sent = SentLinkMessage::new(partner.pid(), alias, None, LinkMessage::Exit(reason));
        crate::routing::alias::post_tie(alias, sent);
    });
    assert_eq!(kind, ThreadKind::Notifier);
}

/// A transport to a node that is lost while a message is being sent to it. At the same time the child's next process
/// comes up on another node.
struct Lost {
    slot: Arc<ChildSlot>,
    next: Pid,
    /// The attempt at which the node is lost.
    at: AtomicUsize,
}

impl Receiver for Lost {
    fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
        if self.at.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.slot.down(&ExitReason::NodeLost);
            assert!(self.slot.up(self.next).is_none());
        }
        let reason = SendFailure::UnknownNode(package.to());
        Err(Undeliverable { package, reason })
    }
}

impl Transport for Lost {}

/// Processes of two nodes can have the same slot and generation.
///
/// Mutation: `keep` compares `Pid::incarnation`.
#[test]
fn the_next_process_may_have_the_slot_and_generation_of_the_one_before_on_another_node() {
    let bench = Bench::new(Some(9));
    let mut next = Mailbox::new().unwrap();
    let node = NodeId::random();
    let mut bytes = next.pid().to_bytes();
    bytes[..6].copy_from_slice(&node.get().to_be_bytes()[2..]);
    let before = Pid::from_bytes(bytes).unwrap();
    assert_eq!((before.node(), before.incarnation()), (node, next.pid().incarnation()));
    // The second attempt is that of the slot, which takes the package after the sender's own attempt has failed.
    let lost = Lost { slot: bench.slot.clone(), next: next.pid(), at: AtomicUsize::new(2) };
    Router::of_program().connect(node, std::sync::Arc::new(lost));
    assert!(bench.slot.up(before).is_none());
    bench.send(1).unwrap();
    Router::of_program().disconnect(node);
    assert_eq!(received(&mut next), [1]);
}

/// A transport to another node that takes `room` messages, and `beyond` more beyond its bound.
struct Narrow {
    queue: TransportQueue,
    room: Mutex<usize>,
    beyond: Mutex<usize>,
    taken: Mutex<Vec<u64>>,
}

impl Narrow {
    fn take(&self, room: &Mutex<usize>, package: Package) -> Result<(), Undeliverable> {
        let mut room = lock(room);
        if *room == 0 {
            self.queue.set_full();
            let reason = SendFailure::Full(package.to());
            return Err(Undeliverable { package, reason });
        }
        *room -= 1;
        lock(&self.taken).push(package.take::<u64>().unwrap());
        Ok(())
    }
}

impl Receiver for Narrow {
    fn deliver(&self, package: Package) -> Result<(), Undeliverable> {
        self.take(&self.room, package)
    }
}

impl Transport for Narrow {
    fn queue(&self, _to: Pid) -> Option<TransportQueue> {
        Some(self.queue.clone())
    }

    fn deliver_beyond(&self, package: Package) -> Result<(), Undeliverable> {
        self.take(&self.beyond, package)
    }
}

/// Mutation: a message that finds no room becomes a dead letter, or is put behind those that wait.
#[test]
fn what_finds_no_room_on_the_way_to_another_node_waits_in_its_order() {
    let bench = Bench::new(Some(9));
    let node = NodeId::random();
    let mut bytes = bench.alias.pid().to_bytes();
    bytes[..6].copy_from_slice(&node.get().to_be_bytes()[2..]);
    let child = Pid::from_bytes(bytes).unwrap();
    let (room, beyond) = (Mutex::new(2), Mutex::new(1));
    let way = std::sync::Arc::new(Narrow { queue: TransportQueue::new(), room, beyond, taken: Mutex::default() });
    Router::of_program().connect(node, way.clone());
    (1..=5).for_each(|number| bench.send(number).unwrap());
    assert!(bench.slot.up(child).is_some());
    assert_eq!(*lock(&way.taken), [1, 2, 3]);
    bench.send(6).unwrap();
    assert!(bench.slot.up(child).is_some(), "there is no room yet");
    *lock(&way.room) = 9;
    assert!(bench.slot.up(child).is_none());
    bench.send(7).unwrap();
    assert_eq!(*lock(&way.taken), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(bench.runtime.statistics().dead_letters.total(), 0);
    Router::of_program().disconnect(node);
}

#[test]
fn the_end_of_a_process_is_shown_with_its_own_reason_or_not_yet() {
    use super::super::plan::Restart;
    let bench = Bench::new(None);
    let shown = || {
        let status = bench.slot.status();
        (status.state, status.last.map(|last| last.reason))
    };
    assert_eq!(shown(), (ChildState::Waiting, None), "its supervisor has not begun");
    lock(&bench.slot.status).restart = Restart::Permanent;
    for reason in [ExitReason::Killed, ExitReason::error("torn")] {
        let before = shown().1;
        let process = Mailbox::new().unwrap();
        assert!(bench.slot.up(process.pid()).is_none());
        lock(&bench.slot.status).state = ChildState::Running;
        bench.slot.ending(process.pid());
        assert_eq!(shown(), (ChildState::Running, before), "how it ended is not noted yet");
        bench.slot.settle(process.pid(), &reason, None).tell(&reason);
        let after = (ChildState::BackingOff, Some(reason.clone()));
        assert_eq!(shown(), after);
        bench.slot.show_end();
        bench.slot.down(&reason);
        assert_eq!(shown(), after, "also while the supervisor decides");
    }
}
