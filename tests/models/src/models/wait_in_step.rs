//! A step that waits for room (`wait_in_step` of `engine/backpressure/suspend.rs`). When its process is asked to exit
//! (`send_control` of `engine/shutdown/mod.rs`, which calls `let_step_end`), the step stops waiting, or does not begin
//! to.
//!
//! The lanes are production code. The suspension with its lock, the flag and the room belong to the driver. No receiver
//! makes room.

use crate::check::{check, keep, reach};
use crate::fault::{self, Fault};
use crate::mailbox::lanes::{Claim, Holder, Lanes};
use crate::mailbox::node::{Envelope, NodeKind};
use crate::mailbox::node_pool;
use crate::mailbox::payload::Payload;
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, fence_for_models, lock, wait};
use loom::thread;
use std::ptr;

/// A planted fault: the step checks for the signal before it is marked as suspended.
const CHECKS_THEN_MARKS: Fault = Fault::Driver(0);
/// A planted fault: the notifier checks whether the step is suspended before it sends the signal.
const CHECKS_THEN_NOTIFIES: Fault = Fault::Driver(1);
/// A planted fault: the step does not check for the signal.
const NO_CHECK: Fault = Fault::Driver(2);

/// A signal. If true, it is a request to exit.
struct End(bool);

struct World {
    lanes: Lanes,
    suspended: AtomicBool,
    /// Whether the suspension is still in effect.
    suspension: Mutex<bool>,
    /// Whether there is room.
    room: (Mutex<bool>, Condvar),
}

impl World {
    /// Creates a process that is in a step.
    fn new() -> &'static Self {
        let room = (Mutex::new(false), Condvar::new());
        let world =
            Self { lanes: Lanes::unused(), suspended: AtomicBool::new(false), suspension: Mutex::new(false), room };
        assert_eq!(world.lanes.claim(), Claim::Vacant);
        keep(world)
    }

    /// Mirrors `suspend::wait_in_step`. The caller holds the token.
    fn wait_in_step(&self) {
        let told = fault::is(CHECKS_THEN_MARKS) && self.is_told_to_end();
        *lock(&self.suspension) = true;
        self.suspended.store(true, Ordering::SeqCst);
        fence_for_models();
        let is_told = if fault::is(CHECKS_THEN_MARKS) { told } else { !fault::is(NO_CHECK) && self.is_told_to_end() };
        if is_told {
            reach("does not wait");
        } else {
            let mut room = lock(&self.room.0);
            while !*room {
                room = wait(&self.room.1, room);
            }
            reach("waited");
        }
        self.end_suspension();
    }

    fn is_told_to_end(&self) -> bool {
        // SAFETY: the caller holds the token.
        let lanes = unsafe { Holder::new(&self.lanes) };
        // SAFETY: as above.
        lanes.has_signal_such(|sent| unsafe { sent.peek::<End>() }.is_some_and(|end| end.0))
    }

    /// Mirrors `send_control` of `engine/shutdown/mod.rs`.
    fn notify(&self, end: End) {
        let is_end = end.0;
        let looked = self.suspended.load(Ordering::SeqCst);
        let envelope =
            Envelope { kind: NodeKind::Signal, generation: 1, word: ptr::null_mut(), payload: Some(Payload::new(end)) };
        assert_eq!(self.lanes.push_control(node_pool::node(envelope)), Claim::Nothing, "the step has the token");
        fence_for_models();
        let is_suspended = if fault::is(CHECKS_THEN_NOTIFIES) { looked } else { self.suspended.load(Ordering::SeqCst) };
        if is_end && is_suspended {
            reach("ended its wait");
            self.end_suspension();
        }
    }

    /// Mirrors `suspend::end_that_suspension` and `suspend::release`.
    fn end_suspension(&self) {
        if !std::mem::take(&mut *lock(&self.suspension)) {
            return;
        }
        self.suspended.store(false, Ordering::SeqCst);
        *lock(&self.room.0) = true;
        self.room.1.notify_one();
    }

    fn close(&self, sent: usize) {
        assert!(!self.suspended.load(Ordering::SeqCst) && !*lock(&self.suspension));
        // SAFETY: all threads are done, and the step still has the token.
        let mut controls = unsafe { self.lanes.take_control() };
        let left = std::iter::from_fn(|| controls.pop()).map(|mut node| drop(node.take())).count();
        assert_eq!(left, sent, "the signals that were checked are still there");
    }
}

#[test]
fn a_step_that_waits_is_notified_of_its_end() {
    check(6, &["does not wait", "waited", "ended its wait"], || {
        let world = World::new();
        let notifier = thread::spawn(|| world.notify(End(true)));
        world.wait_in_step();
        notifier.join().unwrap();
        world.close(1);
    });
}

/// The step checks signals that arrive before or during its wait. It ignores those that are no request to exit.
#[test]
fn other_signals_do_not_matter() {
    check(4, &["does not wait", "waited", "ended its wait"], || {
        let world = World::new();
        let notifiers = [false, true].map(|end| thread::spawn(move || world.notify(End(end))));
        world.wait_in_step();
        notifiers.into_iter().for_each(|notifier| notifier.join().unwrap());
        world.close(2);
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn fault_checks_then_marks() {
    fault::with(CHECKS_THEN_MARKS, a_step_that_waits_is_notified_of_its_end);
}

#[test]
#[should_panic(expected = "deadlock")]
fn fault_checks_then_notifies() {
    fault::with(CHECKS_THEN_NOTIFIES, a_step_that_waits_is_notified_of_its_end);
}

#[test]
#[should_panic(expected = "deadlock")]
fn fault_no_check() {
    fault::with(NO_CHECK, a_step_that_waits_is_notified_of_its_end);
}

#[test]
#[should_panic(expected = "deadlock")]
fn fault_no_single_order() {
    fault::with(Fault::NoSingleOrder, a_step_that_waits_is_notified_of_its_end);
}
