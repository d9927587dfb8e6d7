//! Which thread drives a permit that has none of its own (`engine/workers/driver_state.rs`). What was queued before a
//! call is run, and one thread drives at a time.
//!
//! The state is production code. The driver repeats the steps of `engine/sched/driven.rs` (`call`, `drive`, `help`). A
//! thread that is notified polls at once.
//!
//! Not covered: whether a library polls a task that was woken (the watchdog does not rely on that).

use crate::check::{check, reach};
use crate::engine::workers::driver_state::{Called, DriverState};
use crate::sync::{Arc, AtomicUsize, Ordering, OwnedCell};
use loom::thread;

struct Permit {
    state: DriverState,
    /// The queue: how much was pushed and not taken.
    queued: AtomicUsize,
    /// Belongs to the driver: how much it has run.
    seat: OwnedCell<usize>,
}

// SAFETY: the model checks that only the driver uses the seat: loom reports two threads that do at the same time.
unsafe impl Sync for Permit {}

impl Permit {
    /// Pushes, and calls the permit. Returns whether the caller must notify.
    fn push(&self) -> bool {
        // Relaxed: the call alone must make it visible.
        self.queued.fetch_add(1, Ordering::Relaxed);
        match self.state.call() {
            Called::AtRest => true,
            Called::Driven => {
                reach("called while it is driven");
                false
            }
            Called::Before => {
                reach("called twice");
                false
            }
        }
    }

    /// Mirrors `drive`. With `stops`, the time is up after the first look, and the permit is polled again.
    fn drive(&self, stops: bool) {
        let mut stops = stops;
        while self.state.begin() {
            loop {
                let taken = self.queued.swap(0, Ordering::Relaxed);
                // SAFETY: this thread is the driver.
                self.seat.with_mut(|seat| unsafe { *seat += taken });
                if std::mem::take(&mut stops) {
                    self.state.stop();
                    break;
                }
                if self.state.rest() {
                    return;
                }
                reach("called before its rest");
            }
        }
    }
}

fn permit() -> Arc<Permit> {
    Arc::new(Permit { state: DriverState::called(), queued: AtomicUsize::new(0), seat: OwnedCell::new(0) })
}

fn has_run(permit: &Permit, pushes: usize) {
    assert!(!permit.state.waits(), "no thread has been notified");
    // SAFETY: all other threads have been joined.
    permit.seat.with_mut(|seat| assert_eq!(unsafe { *seat }, pushes, "lost"));
}

/// The task is polled while two threads call it; each polls it when it has to notify.
#[test]
fn what_is_pushed_before_a_call_is_run() {
    check(4, &["called while it is driven", "called twice", "called before its rest"], || {
        let permit = permit();
        let calls = || {
            let permit = permit.clone();
            thread::spawn(move || {
                if permit.push() {
                    permit.drive(false);
                }
            })
        };
        let callers = [calls(), calls()];
        permit.drive(false);
        callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
        has_run(&permit, 2);
    });
}

/// A drive whose time is up is continued, while a thread calls, and another helps out.
#[test]
fn a_helper_and_a_task_drive_by_turns() {
    check(4, &["helped out", "called while it is driven"], || {
        let permit = permit();
        let calls = permit.clone();
        let caller = thread::spawn(move || {
            if calls.push() {
                calls.drive(true);
            }
        });
        let helps = permit.clone();
        let helper = thread::spawn(move || {
            if helps.state.waits() {
                reach("helped out");
                helps.drive(false);
            }
        });
        permit.drive(true);
        caller.join().expect("no panic");
        helper.join().expect("no panic");
        has_run(&permit, 1);
    });
}
