//! Holds (`engine/backpressure/suspend.rs`): a process that is put on the list of a full mailbox is let go when there
//! is room there, whatever else happens meanwhile; and what came for it while it was held is there once, when it goes
//! on.
//!
//! The lanes of both processes are the production ones. What is above them is a driver, which takes the steps of
//! `suspend.rs` and those of `step.rs` that look at CONGESTED and SUSPENDED: the sides (a lock each), the two flags,
//! the list, the life. A change there must be repeated here. "Full" is a mailbox with an envelope in it.
//!
//! Not covered: several on one list, rings, the edges in the wait graph (see `wait_graph.rs` for these), steps that
//! wait within themselves (`told.rs` has how these end).

use crate::check::{check, deep, keep, reach};
use crate::fault::{self, Fault};
use crate::mailbox::lanes::{Advance, Claim, Lanes, ParkResult};
use crate::mailbox::node::{Envelope, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::sync::{AtomicBool, AtomicU8, Mutex, Ordering, OwnedCell, fence_for_models, lock};
use loom::thread;
use std::ptr;

/// Whoever is put on the list does not wake the receiver.
const NO_WAKE: Fault = Fault::Driver(0);
/// A held process looks whether it is held, and then takes what has come, a wake among it.
const LOOK_THEN_TAKE: Fault = Fault::Driver(1);
/// Who lets a process go wakes it, and then takes the mark away.
const WAKE_THEN_LET_GO: Fault = Fault::Driver(2);
/// Whoever is put on the list looks whether the receiver lives, and then says that it is there.
const LIVES_THEN_MARK: Fault = Fault::Driver(3);
/// A receiver that waits for something else is left alone, however short its mailbox is by then.
const LEFT_ALONE: Fault = Fault::Driver(4);
/// A process is put on the list, and then marked as held.
const LISTED_THEN_MARKED: Fault = Fault::Driver(5);
/// A receiver that comes to wait for something else does not look who waits for room.
const WAITS_WITHOUT_A_LOOK: Fault = Fault::Driver(6);
/// What came while a process was held is forgotten.
const FORGETS: Fault = Fault::Driver(7);

/// A process is said to be held, and then marked as such.
const MARKED_OUTSIDE: Fault = Fault::Driver(8);

/// How the receiver rests when it has taken its envelope.
#[derive(Clone, Copy, PartialEq)]
enum Rest {
    Idle,
    Wait,
    /// It ends.
    End,
}

/// What a process has beside its lanes.
struct Side {
    lanes: Lanes,
    lives: AtomicBool,
    overfull: AtomicBool,
    held: AtomicBool,
    /// The number of its hold, if it is held; the holds on its list.
    state: Mutex<(Option<u64>, Vec<u64>)>,
    /// What only the token's holder may touch.
    own: OwnedCell<Own>,
}

#[derive(Default)]
struct Own {
    /// What came while it was held.
    kept: Vec<u32>,
    /// What it has seen in its steps.
    seen: Vec<u32>,
    /// Whether it is held or was, so that its turn begins with a look.
    debt: bool,
    /// How often it has gone on.
    turns: u32,
}

struct World {
    sender: Side,
    receiver: Side,
    rest: Rest,
    /// Holds that have ended.
    let_go: AtomicU8,
}

impl Side {
    fn new() -> Self {
        let side = Self {
            lanes: Lanes::unused(),
            lives: AtomicBool::new(true),
            overfull: AtomicBool::new(false),
            held: AtomicBool::new(false),
            state: Mutex::new((None, Vec::new())),
            own: OwnedCell::new(Own::default()),
        };
        assert_eq!(side.lanes.claim(), Claim::Vacant);
        side
    }

    /// The caller holds the token.
    fn own<R>(&self, body: impl FnOnce(&mut Own) -> R) -> R {
        // SAFETY: the caller holds the token, and loom checks it.
        self.own.with_mut(|own| body(unsafe { &mut *own }))
    }

    /// The caller holds the token.
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

    /// The caller holds the token. Gives whether the lane is empty now.
    fn take_letters(&self) {
        loop {
            // SAFETY: the caller holds the token.
            match unsafe { self.lanes.pop_data() } {
                Advance::To(_, free) => free.into_iter().for_each(node_pool::recycle),
                Advance::Empty => return,
                Advance::Busy => thread::yield_now(),
            }
        }
    }

    fn is_crowded(&self) -> bool {
        self.lanes.depth() > 0
    }
}

fn envelope(number: u32) -> Envelope {
    Envelope { kind: NodeKind::Message, generation: 1, word: ptr::null_mut(), payload: Some(Payload::new(number)) }
}

impl World {
    /// The receiver has an envelope in each lane. The caller holds both tokens.
    fn new(rest: Rest) -> &'static Self {
        let world = keep(Self { sender: Side::new(), receiver: Side::new(), rest, let_go: AtomicU8::new(0) });
        let claim = world.receiver.lanes.push_data(node_pool::node(envelope(0)), || 0, || ());
        assert_eq!(claim, Claim::Nothing);
        let claim = world.receiver.lanes.push_control(node_pool::node(envelope(0)));
        assert_eq!(claim, Claim::Nothing);
        world
    }

    // The sender.

    /// `Context::hold`. The caller holds the sender's token.
    fn hold(&'static self) {
        let (sender, number) = (&self.sender, 1);
        let mark = || {
            let mut state = lock(&sender.state);
            state.0 = Some(number);
            if fault::is(MARKED_OUTSIDE) {
                drop(state);
            }
            sender.held.store(true, Ordering::SeqCst);
        };
        if !fault::is(LISTED_THEN_MARKED) {
            mark();
        }
        let listed = self.wait_at(number);
        if fault::is(LISTED_THEN_MARKED) {
            mark();
        }
        sender.own(|own| own.debt = true);
        if listed {
            reach("held");
        } else {
            reach("not held");
            self.lift();
        }
        self.stay_suspended();
    }

    /// `wait_at`.
    fn wait_at(&'static self, number: u64) -> bool {
        let at = &self.receiver;
        let mut state = lock(&at.state);
        if !at.is_crowded() {
            return false;
        }
        let lives_early = fault::is(LIVES_THEN_MARK).then(|| at.lives.load(Ordering::SeqCst));
        state.1.push(number);
        at.overfull.store(true, Ordering::SeqCst);
        fence_for_models();
        if !lives_early.unwrap_or_else(|| at.lives.load(Ordering::SeqCst)) {
            reach("at one that has ended");
            state.1.pop();
            return false;
        }
        drop(state);
        if fault::is(NO_WAKE) {
            return true;
        }
        match at.lanes.rouse() {
            Some(Claim::Nothing) => reach("told one that runs"),
            Some(Claim::Process) => {
                reach("woke the receiver");
                self.run_receiver();
            }
            // Buried.
            Some(Claim::Vacant) => unreachable!("the model lays no grave"),
            None => {
                reach("left alone");
                if !fault::is(LEFT_ALONE) {
                    self.relieve(true);
                }
            }
        }
        true
    }

    /// `Context::stay_suspended`, and what follows if it gives the token back. The caller holds the sender's token.
    fn stay_suspended(&'static self) {
        let sender = &self.sender;
        loop {
            let mut held = fault::is(LOOK_THEN_TAKE).then(|| {
                let held = sender.held.load(Ordering::SeqCst);
                // Or loom does not come to what this fault needs.
                thread::yield_now();
                held
            });
            let taken = sender.take_control();
            if !taken.is_empty() {
                reach("something came meanwhile");
            }
            if !fault::is(FORGETS) {
                sender.own(|own| own.kept.extend(taken));
            }
            let is_held = *held.get_or_insert_with(|| sender.held.load(Ordering::SeqCst));
            if !is_held {
                return self.go_on();
            }
            // SAFETY: the caller holds the token.
            match unsafe { sender.lanes.park_waiting() } {
                ParkResult::Refused => reach("not laid down"),
                _ => return,
            }
        }
    }

    /// The sender goes on, and then is idle. The caller holds its token.
    fn go_on(&'static self) {
        let sender = &self.sender;
        loop {
            let taken = sender.take_control();
            sender.own(|own| {
                own.turns += 1;
                own.debt = false;
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

    /// `Context::turn` of the sender, by whoever has taken its token.
    fn turn(&'static self) {
        if self.sender.own(|own| own.debt) { self.stay_suspended() } else { self.go_on() }
    }

    fn claimed_sender(&'static self, claim: Claim) {
        if claim == Claim::Process {
            self.turn();
        }
    }

    /// An answer comes for the sender.
    fn answer(&'static self, number: u32) {
        let claim = self.sender.lanes.push_control(node_pool::node(envelope(number)));
        self.claimed_sender(claim);
    }

    /// `lift`.
    fn lift(&'static self) {
        let Some(number) = lock(&self.sender.state).0.take() else { return };
        lock(&self.receiver.state).1.retain(|other| *other != number);
        self.release();
    }

    /// `let_go`. Gives whether the hold was still there.
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

    /// `release`.
    fn release(&'static self) {
        self.let_go.fetch_add(1, Ordering::Relaxed);
        if fault::is(WAKE_THEN_LET_GO) {
            let claim = self.sender.lanes.wake();
            self.claimed_sender(claim);
            self.sender.held.store(false, Ordering::SeqCst);
            return;
        }
        self.sender.held.store(false, Ordering::SeqCst);
        let claim = self.sender.lanes.wake();
        self.claimed_sender(claim);
    }

    // The receiver.

    /// `relieve`, without the room above half of the bound: whoever is let go may be at any time.
    fn relieve(&'static self, rests: bool) {
        let receiver = &self.receiver;
        loop {
            let mut state = lock(&receiver.state);
            if receiver.is_crowded() {
                return;
            }
            let first = if state.1.is_empty() { None } else { Some(state.1.remove(0)) };
            if state.1.is_empty() {
                receiver.overfull.store(false, Ordering::SeqCst);
            }
            drop(state);
            match first {
                Some(first) => {
                    reach("let go");
                    if self.take_off(first) && !rests {
                        return;
                    }
                }
                None => return,
            }
        }
    }

    /// `Context::go_on` of the receiver. The caller holds its token.
    fn run_receiver(&'static self) {
        let receiver = &self.receiver;
        loop {
            // `begin_rare`.
            let is_rare = receiver.lanes.has_control() || receiver.overfull.load(Ordering::Relaxed);
            if is_rare {
                let _answer = receiver.take_control();
                if receiver.overfull.load(Ordering::SeqCst) {
                    self.relieve(false);
                }
            }
            receiver.take_letters();
            if self.rest == Rest::End {
                return self.end_receiver();
            }
            // `after`, to which an ordinary step does not come.
            let waits = self.rest == Rest::Wait;
            let looks = (is_rare || waits) && !(waits && fault::is(WAITS_WITHOUT_A_LOOK));
            if looks && receiver.overfull.load(Ordering::SeqCst) {
                self.relieve(true);
            }
            // SAFETY: the caller holds the token.
            let laid = unsafe { if waits { receiver.lanes.park_waiting() } else { receiver.lanes.park_idle() } };
            match laid {
                ParkResult::Refused | ParkResult::Reclaimed(Claim::Process) => reach("another step"),
                _ => return,
            }
        }
    }

    /// `end`: unroutable first, and then the look.
    fn end_receiver(&'static self) {
        let receiver = &self.receiver;
        receiver.lives.store(false, Ordering::SeqCst);
        fence_for_models();
        if receiver.overfull.load(Ordering::SeqCst) {
            let waiting = std::mem::take(&mut lock(&receiver.state).1);
            for number in waiting {
                reach("let go by the end");
                self.take_off(number);
            }
        }
    }

    /// All are done: the sender has gone on, and has seen what came.
    fn close(&self, came: &[u32]) {
        assert_eq!(self.sender.lanes.glance(), (true, false), "the sender rests, and not because it is held");
        assert_eq!(self.sender.lanes.claim(), Claim::Process);
        let mut seen = self.sender.own(|own| {
            assert!(own.turns > 0, "the sender has gone on");
            own.seen.clone()
        });
        seen.sort_unstable();
        assert_eq!(seen, came, "each once");
        assert!(!self.sender.held.load(Ordering::SeqCst));
        assert_eq!(lock(&self.sender.state).0, None);
        assert!(lock(&self.receiver.state).1.is_empty());
        assert_eq!(self.let_go.load(Ordering::Relaxed), 1, "one hold, ended once");
    }
}

fn suspended_at(rest: Rest) {
    let world = World::new(rest);
    let sender = thread::spawn(move || world.hold());
    world.run_receiver();
    sender.join().unwrap();
    world.close(&[]);
}

#[test]
fn held_at_one_that_comes_to_rest() {
    check(5, &["held", "not held", "told one that runs", "woke the receiver", "let go"], || suspended_at(Rest::Idle));
}

#[test]
fn held_at_one_that_comes_to_wait_for_something_else() {
    check(5, &["held", "not held", "left alone", "told one that runs", "let go"], || suspended_at(Rest::Wait));
}

#[test]
fn held_at_one_that_ends() {
    check(5, &["held", "at one that has ended", "let go by the end"], || suspended_at(Rest::End));
}

/// An answer comes while the process is held, or is about to be, or has just been let go.
#[test]
fn an_answer_for_one_that_is_held() {
    check(deep(2, 3), &["held", "something came meanwhile", "let go"], || {
        let world = World::new(Rest::Idle);
        let sender = thread::spawn(move || world.hold());
        let answers = thread::spawn(move || world.answer(7));
        world.run_receiver();
        sender.join().unwrap();
        answers.join().unwrap();
        world.close(&[7]);
    });
}

/// The hold ends for another reason at the same time.
#[test]
fn a_hold_that_ends_twice() {
    check(3, &["held", "let go"], || {
        let world = World::new(Rest::Idle);
        let sender = thread::spawn(move || world.hold());
        let forced_release = thread::spawn(move || world.lift());
        world.run_receiver();
        sender.join().unwrap();
        forced_release.join().unwrap();
        world.close(&[]);
    });
}

#[test]
#[should_panic]
fn fault_no_wake() {
    fault::with(NO_WAKE, held_at_one_that_comes_to_rest);
}

#[test]
#[should_panic]
fn fault_look_then_take() {
    fault::with(LOOK_THEN_TAKE, held_at_one_that_comes_to_rest);
}

#[test]
#[should_panic]
fn fault_wake_then_let_go() {
    fault::with(WAKE_THEN_LET_GO, held_at_one_that_comes_to_rest);
}

#[test]
#[should_panic]
fn fault_lives_then_mark() {
    fault::with(LIVES_THEN_MARK, held_at_one_that_ends);
}

#[test]
#[should_panic]
fn fault_left_alone() {
    fault::with(LEFT_ALONE, held_at_one_that_comes_to_wait_for_something_else);
}

#[test]
#[should_panic]
fn fault_listed_then_marked() {
    fault::with(LISTED_THEN_MARKED, held_at_one_that_comes_to_rest);
}

#[test]
#[should_panic]
fn fault_waits_without_a_look() {
    fault::with(WAITS_WITHOUT_A_LOOK, held_at_one_that_comes_to_wait_for_something_else);
}

#[test]
#[should_panic]
fn fault_forgets() {
    fault::with(FORGETS, an_answer_for_one_that_is_held);
}

#[test]
#[should_panic]
fn fault_marked_outside() {
    fault::with(MARKED_OUTSIDE, a_hold_that_ends_twice);
}

#[test]
#[should_panic]
fn fault_relaxed_compare() {
    fault::with(Fault::RelaxedCompare, held_at_one_that_comes_to_rest);
}
