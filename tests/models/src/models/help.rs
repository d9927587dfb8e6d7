//! Who is notified when a permit that others drive is called (`engine/workers/help.rs`): the permit is driven, by
//! the one or the other.
//!
//! Helper and state are production code. The task, the helper and their drives repeat the steps of
//! `engine/sched/driven.rs` (`poll`, `help`, `help_out`, `leave`). Parking and waking are flags: at the end, those who
//! were woken look once more, in turn.
//!
//! Not covered: several helpers at a time, and the permit's end.

use crate::check::{check, reach};
use crate::engine::workers::driver_state::{Called, DriverState};
use crate::engine::workers::help::Help;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering};
use loom::thread;

struct Permit {
    state: DriverState,
    /// How much was pushed and has not been run.
    queued: AtomicUsize,
    help: Help<()>,
    is_task_woken: AtomicBool,
    is_helper_unparked: AtomicBool,
}

impl Permit {
    /// A permit that rests.
    fn new() -> Arc<Self> {
        let permit = Self {
            state: DriverState::called(),
            queued: AtomicUsize::new(0),
            help: Help::new(),
            is_task_woken: AtomicBool::new(false),
            is_helper_unparked: AtomicBool::new(false),
        };
        permit.drive();
        Arc::new(permit)
    }

    fn unpark_helper(&self) {
        self.is_helper_unparked.swap(true, Ordering::SeqCst);
    }

    fn wake_task(&self) {
        self.is_task_woken.swap(true, Ordering::SeqCst);
    }

    fn push(&self) {
        // Relaxed: the call alone must make it visible.
        self.queued.fetch_add(1, Ordering::Relaxed);
        self.call();
    }

    fn call(&self) {
        if self.state.call() == Called::AtRest {
            if self.help.notify(|()| self.unpark_helper()) {
                reach("notified the helper");
            } else {
                reach("woke the task");
                self.wake_task();
            }
        }
    }

    fn drive(&self) {
        while self.state.begin() {
            loop {
                self.queued.swap(0, Ordering::Relaxed);
                if self.state.rest() {
                    break;
                }
            }
        }
    }

    fn poll(&self) {
        if self.help.relieve().is_some() {
            reach("relieved the helper");
            self.unpark_helper();
        }
        self.drive();
    }

    /// Mirrors `help_out`, and what the new helper does.
    fn help_out(&self) {
        if let Some(Ok(())) = self.help.begin::<()>(|| false, || Ok(())) {
            self.wake_task();
            self.help();
        }
    }

    fn help(&self) {
        while self.help.is_by(|()| true) {
            if self.state.waits() {
                reach("helped");
                self.drive();
            } else if !self.is_helper_unparked.swap(false, Ordering::SeqCst) {
                return;
            }
        }
        self.wake_task();
        self.help.notify_next(|()| self.unpark_helper());
    }

    /// Lets those who were woken look. With `is_polled` false, the task is woken in vain.
    fn settle(&self, is_polled: bool) {
        loop {
            if is_polled && self.is_task_woken.swap(false, Ordering::SeqCst) {
                self.poll();
            } else if self.is_helper_unparked.swap(false, Ordering::SeqCst) {
                self.help();
            } else {
                break;
            }
        }
        assert!(!self.state.waits(), "no one drives it");
        assert_eq!(self.queued.load(Ordering::Relaxed), 0, "lost");
    }
}

fn spawn(permit: &Arc<Permit>, body: impl FnOnce(&Permit) + 'static) -> thread::JoinHandle<()> {
    let permit = permit.clone();
    thread::spawn(move || body(&permit))
}

/// A thread begins to help out, since the task is not polled, or has been dropped.
#[test]
fn a_call_is_seen_by_a_helper_that_begins() {
    check(5, &["helped", "notified the helper", "woke the task"], || {
        let permit = Permit::new();
        let caller = spawn(&permit, Permit::push);
        permit.help_out();
        caller.join().expect("no panic");
        permit.settle(false);
    });
}

#[test]
fn a_call_is_seen_by_the_task_or_by_the_helper_that_it_relieves() {
    check(4, &["helped", "notified the helper", "relieved the helper"], || {
        let permit = Permit::new();
        permit.help_out();
        let caller = spawn(&permit, Permit::push);
        let helper = spawn(&permit, Permit::help);
        permit.poll();
        caller.join().expect("no panic");
        helper.join().expect("no panic");
        permit.settle(true);
    });
}

/// The permit can be helped again after a helper was relieved.
#[test]
fn a_call_is_seen_when_the_task_is_dropped_after_it_has_relieved_a_helper() {
    check(3, &["helped", "relieved the helper", "notified the helper"], || {
        let permit = Permit::new();
        permit.help_out();
        let caller = spawn(&permit, Permit::push);
        permit.poll();
        // Mirrors `leave`.
        permit.call();
        permit.help_out();
        caller.join().expect("no panic");
        permit.settle(false);
    });
}
