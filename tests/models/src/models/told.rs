//! A step that waits for room within itself (`wait_in_step` of `engine/backpressure/suspend.rs`) is let go when its
//! process is told to end (`tell` of `engine/shutdown/mod.rs`, `let_step_end`), or does not wait at all.
//!
//! The lanes are the production ones; the side with its lock, the mark and the room are a driver's. Nobody else makes
//! room.

use crate::check::{check, keep, reach};
use crate::fault::{self, Fault};
use crate::mailbox::lanes::{Claim, Holder, Lanes};
use crate::mailbox::node::{Envelope, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, fence_for_models, lock, wait};
use loom::thread;
use std::ptr;

/// The step looks whether it has been told, and then is marked as held.
const LOOK_THEN_MARK: Fault = Fault::Driver(0);
/// Whoever tells it looks whether it is held, and then says it.
const LOOK_THEN_TELL: Fault = Fault::Driver(1);
/// The step does not look whether it has been told.
const NO_LOOK: Fault = Fault::Driver(2);

/// What is said: that it is to end, or something else.
struct End(bool);

struct World {
    lanes: Lanes,
    held: AtomicBool,
    /// Whether the hold is still there; and whether there is room.
    side: Mutex<bool>,
    room: (Mutex<bool>, Condvar),
}

impl World {
    /// Its process is in a step.
    fn new() -> &'static Self {
        let room = (Mutex::new(false), Condvar::new());
        let world = Self { lanes: Lanes::unused(), held: AtomicBool::new(false), side: Mutex::new(false), room };
        assert_eq!(world.lanes.claim(), Claim::Vacant);
        keep(world)
    }

    /// `wait_in_step`. The caller holds the token.
    fn wait_in_step(&self) {
        let told = fault::is(LOOK_THEN_MARK) && self.is_told_to_end();
        *lock(&self.side) = true;
        self.held.store(true, Ordering::SeqCst);
        fence_for_models();
        let is_told = if fault::is(LOOK_THEN_MARK) { told } else { !fault::is(NO_LOOK) && self.is_told_to_end() };
        if is_told {
            reach("does not wait");
        } else {
            let mut room = lock(&self.room.0);
            while !*room {
                room = wait(&self.room.1, room);
            }
            reach("waited");
        }
        self.lift();
    }

    fn is_told_to_end(&self) -> bool {
        // SAFETY: the caller holds the token.
        let lanes = unsafe { Holder::new(&self.lanes) };
        // SAFETY: as above.
        lanes.has_signal_such(|said| unsafe { said.peek::<End>() }.is_some_and(|end| end.0))
    }

    /// `tell`.
    fn tell(&self, end: End) {
        let is_end = end.0;
        let looked = self.held.load(Ordering::SeqCst);
        let envelope =
            Envelope { kind: NodeKind::Signal, generation: 1, word: ptr::null_mut(), payload: Some(Payload::new(end)) };
        assert_eq!(self.lanes.push_control(node_pool::node(envelope)), Claim::Nothing, "the step has the token");
        fence_for_models();
        let is_held = if fault::is(LOOK_THEN_TELL) { looked } else { self.held.load(Ordering::SeqCst) };
        if is_end && is_held {
            reach("lets it go");
            self.lift();
        }
    }

    /// `end_that_suspension` and `release`.
    fn lift(&self) {
        if !std::mem::take(&mut *lock(&self.side)) {
            return;
        }
        self.held.store(false, Ordering::SeqCst);
        *lock(&self.room.0) = true;
        self.room.1.notify_one();
    }

    fn close(&self, said: usize) {
        assert!(!self.held.load(Ordering::SeqCst) && !*lock(&self.side));
        // SAFETY: all are done, and the step has the token.
        let mut controls = unsafe { self.lanes.take_control() };
        let left = std::iter::from_fn(|| controls.pop()).map(|mut node| drop(node.take())).count();
        assert_eq!(left, said, "what was looked at is there still");
    }
}

#[test]
fn a_step_that_waits_hears_that_it_is_to_end() {
    check(6, &["does not wait", "waited", "lets it go"], || {
        let world = World::new();
        let teller = thread::spawn(|| world.tell(End(true)));
        world.wait_in_step();
        teller.join().unwrap();
        world.close(1);
    });
}

/// It looks at what comes meanwhile, which is not for it, and at what came before.
#[test]
fn what_is_said_besides_does_not_matter() {
    check(4, &["does not wait", "waited", "lets it go"], || {
        let world = World::new();
        let tellers = [false, true].map(|end| thread::spawn(move || world.tell(End(end))));
        world.wait_in_step();
        tellers.into_iter().for_each(|teller| teller.join().unwrap());
        world.close(2);
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn fault_look_then_mark() {
    fault::with(LOOK_THEN_MARK, a_step_that_waits_hears_that_it_is_to_end);
}

#[test]
#[should_panic(expected = "deadlock")]
fn fault_look_then_tell() {
    fault::with(LOOK_THEN_TELL, a_step_that_waits_hears_that_it_is_to_end);
}

#[test]
#[should_panic(expected = "deadlock")]
fn fault_no_look() {
    fault::with(NO_LOOK, a_step_that_waits_hears_that_it_is_to_end);
}

#[test]
#[should_panic(expected = "deadlock")]
fn fault_no_single_order() {
    fault::with(Fault::NoSingleOrder, a_step_that_waits_hears_that_it_is_to_end);
}
