//! Suspension of senders (`engine/backpressure/suspend.rs`). A sender on the waiting list of a full mailbox is resumed
//! when there is room, whatever else happens in the meantime. The sender receives each message that arrived during its
//! suspension exactly once.
//!
//! The lanes of both processes are production code. The driver repeats the steps of `suspend.rs`, and those steps of
//! `engine/slice` that check CONGESTED and SUSPENDED. It does so on a locked state for each process, the two flags, the
//! list, and the liveness of the receiver. Changes in those files must be repeated here. A mailbox with one envelope
//! counts as full.
//!
//! Not covered: several senders on one list, cycles, the edges in the wait graph (see `wait_graph.rs`), and steps that
//! wait for room (`wait_in_step.rs` covers the end of such waits).

use crate::check::{check, deep, keep, reach};
use crate::fault::{self, Fault};
use crate::mailbox::lanes::{Advance, Claim, Lanes, ParkResult};
use crate::mailbox::node::{Envelope, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::sync::{AtomicBool, AtomicU8, Mutex, Ordering, OwnedCell, fence_for_models, lock};
use loom::thread;
use std::ptr;

/// A sender that joins the list does not wake the receiver.
const NO_WAKE: Fault = Fault::Driver(0);
/// A suspended process checks SUSPENDED before it takes what has arrived, including a wake.
const CHECKS_THEN_TAKES: Fault = Fault::Driver(1);
/// A process is woken from a suspension before SUSPENDED is cleared.
const WAKES_THEN_CLEARS_THE_FLAG: Fault = Fault::Driver(2);
/// A sender that joins the list checks whether the receiver is alive before it sets CONGESTED.
const CHECKS_LIVENESS_THEN_MARKS: Fault = Fault::Driver(3);
/// A sender that finds that the receiver waits for something else does not check again whether there is room.
const NO_SECOND_CHECK: Fault = Fault::Driver(4);
/// A process joins the list before it is marked SUSPENDED.
const LISTED_THEN_MARKED: Fault = Fault::Driver(5);
/// A receiver that starts to wait for something else does not resume the senders that wait for room.
const WAITS_WITHOUT_A_CHECK: Fault = Fault::Driver(6);
/// Messages that arrived during a suspension are lost.
const LOSES_KEPT_MESSAGES: Fault = Fault::Driver(7);
/// A suspension is recorded under the lock, but the process is marked SUSPENDED only after the lock is released.
const MARKED_OUTSIDE: Fault = Fault::Driver(8);

/// The behaviour of the receiver after it has taken its envelope.
#[derive(Clone, Copy, PartialEq)]
enum Rest {
    Idle,
    Wait,
    /// The receiver exits.
    End,
}

/// A process: its lanes and its state.
struct ProcessSide {
    lanes: Lanes,
    alive: AtomicBool,
    congested: AtomicBool,
    suspended: AtomicBool,
    /// The number of the process's own suspension, if it is suspended, and the numbers of the suspended senders on its
    /// list.
    state: Mutex<(Option<u64>, Vec<u64>)>,
    /// Accessed only by the thread that holds the token.
    own: OwnedCell<Own>,
}

#[derive(Default)]
struct Own {
    /// The messages that arrived during the process's suspension.
    kept: Vec<u32>,
    /// The messages that the process's steps have taken.
    seen: Vec<u32>,
    /// Whether the process was suspended. If so, its next time slice begins with a check.
    was_suspended: bool,
    /// The number of times that the process has been resumed.
    resumed: u32,
}

struct World {
    sender: ProcessSide,
    receiver: ProcessSide,
    rest: Rest,
    /// The number of suspensions that have ended.
    ended: AtomicU8,
}

impl ProcessSide {
    fn new() -> Self {
        let side = Self {
            lanes: Lanes::unused(),
            alive: AtomicBool::new(true),
            congested: AtomicBool::new(false),
            suspended: AtomicBool::new(false),
            state: Mutex::new((None, Vec::new())),
            own: OwnedCell::new(Own::default()),
        };
        assert_eq!(side.lanes.claim(), Claim::Vacant);
        side
    }

    /// Gives `body` access to the private state. The caller holds the token.
    fn own<R>(&self, body: impl FnOnce(&mut Own) -> R) -> R {
        // SAFETY: the caller holds the token, and loom checks it.
        self.own.with_mut(|own| body(unsafe { &mut *own }))
    }

    /// Takes the control lane. The caller holds the token.
    fn take_control(&self) -> Vec<u32> {
        let mut taken = Vec::new();
        if self.lanes.has_control() {
            // SAFETY: the caller holds the token.
            let mut controls = unsafe { self.lanes.take_control() };
            while let Some(mut node) = controls.pop() {
                taken.push(
                    node.take().payload.and_then(|payload| payload.take().ok()).expect("each envelope is a number"),
                );
                node_pool::recycle(node);
            }
        }
        taken
    }

    /// Takes all messages. The caller holds the token.
    fn take_messages(&self) {
        loop {
            // SAFETY: the caller holds the token.
            match unsafe { self.lanes.pop_data() } {
                Advance::To(_, free) => free.into_iter().for_each(node_pool::recycle),
                Advance::Empty => return,
                Advance::Busy => thread::yield_now(),
            }
        }
    }

    fn is_congested(&self) -> bool {
        self.lanes.depth() > 0
    }
}

fn envelope(number: u32) -> Envelope {
    Envelope { kind: NodeKind::Message, generation: 1, word: ptr::null_mut(), payload: Some(Payload::new(number)) }
}

impl World {
    /// Creates a receiver, with an envelope in each lane, and a sender. The caller holds the tokens of both.
    fn new(rest: Rest) -> &'static Self {
        let world =
            keep(Self { sender: ProcessSide::new(), receiver: ProcessSide::new(), rest, ended: AtomicU8::new(0) });
        let claim = world.receiver.lanes.push_data(node_pool::node(envelope(0)), || 0, |_| ());
        assert_eq!(claim, Claim::Nothing);
        let claim = world.receiver.lanes.push_control(node_pool::node(envelope(0)));
        assert_eq!(claim, Claim::Nothing);
        world
    }

    // The sender.

    /// Mirrors `ThreadContext::suspend`. The caller holds the sender's token.
    fn suspend(&'static self) {
        let (sender, number) = (&self.sender, 1);
        let mark = || {
            let mut state = lock(&sender.state);
            state.0 = Some(number);
            if fault::is(MARKED_OUTSIDE) {
                drop(state);
            }
            sender.suspended.store(true, Ordering::SeqCst);
        };
        if !fault::is(LISTED_THEN_MARKED) {
            mark();
        }
        let listed = self.wait_at(number);
        if fault::is(LISTED_THEN_MARKED) {
            mark();
        }
        sender.own(|own| own.was_suspended = true);
        if listed {
            reach("suspended");
        } else {
            reach("not suspended");
            self.end_suspension();
        }
        self.stay_suspended();
    }

    /// Mirrors `suspend::wait_at`.
    fn wait_at(&'static self, number: u64) -> bool {
        let at = &self.receiver;
        let mut state = lock(&at.state);
        if !at.is_congested() {
            return false;
        }
        let alive_early = fault::is(CHECKS_LIVENESS_THEN_MARKS).then(|| at.alive.load(Ordering::SeqCst));
        state.1.push(number);
        at.congested.store(true, Ordering::SeqCst);
        fence_for_models();
        if !alive_early.unwrap_or_else(|| at.alive.load(Ordering::SeqCst)) {
            reach("the receiver has exited");
            state.1.pop();
            return false;
        }
        drop(state);
        if fault::is(NO_WAKE) {
            return true;
        }
        match at.lanes.wake_unless_waiting() {
            Some(Claim::Nothing) => reach("notified a running receiver"),
            Some(Claim::Process) => {
                reach("woke the receiver");
                self.run_receiver();
            }
            Some(Claim::Vacant) => unreachable!("no slot of the model is vacated"),
            None => {
                reach("the receiver waits");
                if !fault::is(NO_SECOND_CHECK) {
                    self.resume_waiters(true);
                }
            }
        }
        true
    }

    /// Mirrors `ThreadContext::stay_suspended`, and the code that follows if it returns the token. The caller holds
    /// the sender's token.
    fn stay_suspended(&'static self) {
        let sender = &self.sender;
        loop {
            let mut suspended = fault::is(CHECKS_THEN_TAKES).then(|| {
                let suspended = sender.suspended.load(Ordering::SeqCst);
                // Without this yield, loom would not reach the execution in which the fault shows.
                thread::yield_now();
                suspended
            });
            let taken = sender.take_control();
            if !taken.is_empty() {
                reach("a message came meanwhile");
            }
            if !fault::is(LOSES_KEPT_MESSAGES) {
                sender.own(|own| own.kept.extend(taken));
            }
            let is_suspended = *suspended.get_or_insert_with(|| sender.suspended.load(Ordering::SeqCst));
            if !is_suspended {
                return self.resume_sender();
            }
            // SAFETY: the caller holds the token.
            match unsafe { sender.lanes.park_waiting() } {
                ParkResult::Refused => reach("not parked"),
                _ => return,
            }
        }
    }

    /// Resumes the sender, which then goes idle. The caller holds the sender's token.
    fn resume_sender(&'static self) {
        let sender = &self.sender;
        loop {
            let taken = sender.take_control();
            sender.own(|own| {
                own.resumed += 1;
                own.was_suspended = false;
                let kept = std::mem::take(&mut own.kept);
                own.seen.extend(kept);
                own.seen.extend(taken);
            });
            // SAFETY: the caller holds the token.
            match unsafe { sender.lanes.park_idle() } {
                ParkResult::Refused | ParkResult::Reclaimed(Claim::Process) => {}
                _ => return,
            }
        }
    }

    /// Mirrors `ThreadContext::run_slice` for the sender, on the thread that has taken its token.
    fn turn(&'static self) {
        if self.sender.own(|own| own.was_suspended) { self.stay_suspended() } else { self.resume_sender() }
    }

    fn claimed_sender(&'static self, claim: Claim) {
        if claim == Claim::Process {
            self.turn();
        }
    }

    /// Sends a reply to the sender.
    fn reply(&'static self, number: u32) {
        let claim = self.sender.lanes.push_control(node_pool::node(envelope(number)));
        self.claimed_sender(claim);
    }

    /// Mirrors `suspend::end_suspension`.
    fn end_suspension(&'static self) {
        let Some(number) = lock(&self.sender.state).0.take() else { return };
        lock(&self.receiver.state).1.retain(|other| *other != number);
        self.release();
    }

    /// Mirrors `suspend::resume`. Returns whether the suspension was still in effect.
    fn take_off(&'static self, number: u64) -> bool {
        let mut state = lock(&self.sender.state);
        if state.0 != Some(number) {
            return false;
        }
        state.0 = None;
        drop(state);
        self.release();
        true
    }

    /// Mirrors `suspend::release`.
    fn release(&'static self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        if fault::is(WAKES_THEN_CLEARS_THE_FLAG) {
            let claim = self.sender.lanes.wake();
            self.claimed_sender(claim);
            self.sender.suspended.store(false, Ordering::SeqCst);
            return;
        }
        self.sender.suspended.store(false, Ordering::SeqCst);
        let claim = self.sender.lanes.wake();
        self.claimed_sender(claim);
    }

    // The receiver.

    /// Mirrors `suspend::resume_waiters`, without its limit of half the bound. So a sender may be resumed at any time.
    fn resume_waiters(&'static self, rests: bool) {
        let receiver = &self.receiver;
        loop {
            let mut state = lock(&receiver.state);
            if receiver.is_congested() {
                return;
            }
            let first = if state.1.is_empty() { None } else { Some(state.1.remove(0)) };
            if state.1.is_empty() {
                receiver.congested.store(false, Ordering::SeqCst);
            }
            drop(state);
            match first {
                Some(first) => {
                    reach("resumed");
                    if self.take_off(first) && !rests {
                        return;
                    }
                }
                None => return,
            }
        }
    }

    /// Mirrors `ThreadContext::go_on` for the receiver. The caller holds the receiver's token.
    fn run_receiver(&'static self) {
        let receiver = &self.receiver;
        loop {
            // Mirrors `ThreadContext::begin_with_control`.
            let is_rare = receiver.lanes.has_control() || receiver.congested.load(Ordering::Relaxed);
            if is_rare {
                let _answer = receiver.take_control();
                if receiver.congested.load(Ordering::SeqCst) {
                    self.resume_waiters(false);
                }
            }
            receiver.take_messages();
            if self.rest == Rest::End {
                return self.end_receiver();
            }
            // Mirrors `ThreadContext::after_other`, which an ordinary step skips.
            let waits = self.rest == Rest::Wait;
            let looks = (is_rare || waits) && !(waits && fault::is(WAITS_WITHOUT_A_CHECK));
            if looks && receiver.congested.load(Ordering::SeqCst) {
                self.resume_waiters(true);
            }
            // SAFETY: the caller holds the token.
            let laid = unsafe { if waits { receiver.lanes.park_waiting() } else { receiver.lanes.park_idle() } };
            match laid {
                ParkResult::Refused | ParkResult::Reclaimed(Claim::Process) => reach("another step"),
                _ => return,
            }
        }
    }

    /// Mirrors the end of a process, up to `suspend::end`. The receiver is marked as dead before it checks CONGESTED.
    fn end_receiver(&'static self) {
        let receiver = &self.receiver;
        receiver.alive.store(false, Ordering::SeqCst);
        fence_for_models();
        if receiver.congested.load(Ordering::SeqCst) {
            let waiting = std::mem::take(&mut lock(&receiver.state).1);
            for number in waiting {
                reach("resumed by the exit");
                self.take_off(number);
            }
        }
    }

    /// Checks, when all threads are done, that the sender was resumed, and that it has seen the messages in `came`.
    fn close(&self, came: &[u32]) {
        assert_eq!(self.sender.lanes.glance(), (true, false), "the sender rests, and not because it is suspended");
        assert_eq!(self.sender.lanes.claim(), Claim::Process);
        let mut seen = self.sender.own(|own| {
            assert!(own.resumed > 0, "the sender was resumed");
            own.seen.clone()
        });
        seen.sort_unstable();
        assert_eq!(seen, came, "each once");
        assert!(!self.sender.suspended.load(Ordering::SeqCst));
        assert_eq!(lock(&self.sender.state).0, None);
        assert!(lock(&self.receiver.state).1.is_empty());
        assert_eq!(self.ended.load(Ordering::Relaxed), 1, "one suspension, ended once");
    }
}

fn suspended_at(rest: Rest) {
    let world = World::new(rest);
    let sender = thread::spawn(move || world.suspend());
    world.run_receiver();
    sender.join().unwrap();
    world.close(&[]);
}

#[test]
fn suspended_at_a_receiver_that_goes_idle() {
    let places = ["suspended", "not suspended", "notified a running receiver", "woke the receiver", "resumed"];
    check(deep(4, 5), &places, || suspended_at(Rest::Idle));
}

#[test]
fn suspended_at_a_receiver_that_waits_for_something_else() {
    let places = ["suspended", "not suspended", "the receiver waits", "notified a running receiver", "resumed"];
    check(5, &places, || suspended_at(Rest::Wait));
}

#[test]
fn suspended_at_a_receiver_that_exits() {
    check(5, &["suspended", "the receiver has exited", "resumed by the exit"], || suspended_at(Rest::End));
}

/// A reply arrives while the sender is suspended, is about to be suspended, or has just been resumed.
#[test]
fn a_reply_to_a_suspended_process() {
    check(deep(2, 3), &["suspended", "a message came meanwhile", "resumed"], || {
        let world = World::new(Rest::Idle);
        let sender = thread::spawn(move || world.suspend());
        let replier = thread::spawn(move || world.reply(7));
        world.run_receiver();
        sender.join().unwrap();
        replier.join().unwrap();
        world.close(&[7]);
    });
}

/// A second thread ends the suspension at the same time, for another reason.
#[test]
fn a_suspension_that_ends_twice() {
    check(deep(2, 3), &["suspended", "resumed"], || {
        let world = World::new(Rest::Idle);
        let sender = thread::spawn(move || world.suspend());
        let forced_release = thread::spawn(move || world.end_suspension());
        world.run_receiver();
        sender.join().unwrap();
        forced_release.join().unwrap();
        world.close(&[]);
    });
}

#[test]
#[should_panic]
fn fault_no_wake() {
    fault::with(NO_WAKE, suspended_at_a_receiver_that_goes_idle);
}

#[test]
#[should_panic]
fn fault_checks_then_takes() {
    fault::with(CHECKS_THEN_TAKES, suspended_at_a_receiver_that_goes_idle);
}

#[test]
#[should_panic]
fn fault_wakes_then_clears_the_flag() {
    fault::with(WAKES_THEN_CLEARS_THE_FLAG, suspended_at_a_receiver_that_goes_idle);
}

#[test]
#[should_panic]
fn fault_checks_liveness_then_marks() {
    fault::with(CHECKS_LIVENESS_THEN_MARKS, suspended_at_a_receiver_that_exits);
}

#[test]
#[should_panic]
fn fault_no_second_check() {
    fault::with(NO_SECOND_CHECK, suspended_at_a_receiver_that_waits_for_something_else);
}

#[test]
#[should_panic]
fn fault_listed_then_marked() {
    fault::with(LISTED_THEN_MARKED, suspended_at_a_receiver_that_goes_idle);
}

#[test]
#[should_panic]
fn fault_waits_without_a_check() {
    fault::with(WAITS_WITHOUT_A_CHECK, suspended_at_a_receiver_that_waits_for_something_else);
}

#[test]
#[should_panic]
fn fault_loses_kept_messages() {
    fault::with(LOSES_KEPT_MESSAGES, a_reply_to_a_suspended_process);
}

#[test]
#[should_panic]
fn fault_marked_outside() {
    fault::with(MARKED_OUTSIDE, a_suspension_that_ends_twice);
}

#[test]
#[should_panic]
fn fault_relaxed_compare() {
    fault::with(Fault::RelaxedCompare, suspended_at_a_receiver_that_goes_idle);
}
