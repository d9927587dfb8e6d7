//! The limits of waits that have no timer at first (`time/limits.rs`). A wait that begins is seen by a sweep, or its
//! thread sees to another sweep.
//!
//! The lists are production code. The waits, and the thread that begins one, repeat the steps of `OutsideWait::limited`
//! and of `timekeeper.rs`.

use crate::check::{check, reach};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock};
use crate::time::limits::{TimeLimits, Visited};
use loom::thread;

#[derive(Default)]
struct Wait {
    waits: Mutex<bool>,
    /// Whether a sweep has found it waiting.
    is_found: AtomicBool,
}

struct Limits {
    limits: TimeLimits<Arc<Wait>>,
    /// Whether a thread has seen to another sweep.
    is_awaited: AtomicBool,
}

impl Limits {
    /// The limits of a program in which a sweep is about to begin.
    fn new() -> Arc<Self> {
        let limits = Self { limits: TimeLimits::new(), is_awaited: AtomicBool::new(false) };
        limits.limits.note_sweep(true);
        Arc::new(limits)
    }

    /// Performs *begin* and *ask*, and between them puts a new wait on a list.
    fn wait(&self, wait: &Arc<Wait>, is_new: bool) {
        *lock(&wait.waits) = true;
        if is_new {
            self.limits.add(0, wait.clone());
        }
        if !self.limits.will_be_swept() {
            reach("saw to a sweep");
            self.is_awaited.store(true, Ordering::SeqCst);
            self.limits.note_sweep(true);
        }
    }

    /// Returns whether there must be another sweep.
    fn sweep(&self) -> bool {
        self.limits.sweep(|wait| match *lock(&wait.waits) {
            true => {
                wait.is_found.store(true, Ordering::SeqCst);
                Visited::Used
            }
            false => Visited::Unused,
        })
    }
}

fn is_seen_to(is_new: bool) {
    check(5, &["saw to a sweep", "found by a sweep"], move || {
        let (limits, wait) = (Limits::new(), Arc::new(Wait::default()));
        if !is_new {
            limits.limits.add(0, wait.clone());
        }
        let (theirs, waits) = (limits.clone(), wait.clone());
        let caller = thread::spawn(move || theirs.wait(&waits, is_new));
        let again = limits.sweep();
        caller.join().expect("no panic");
        let is_found = wait.is_found.load(Ordering::SeqCst);
        if is_found {
            reach("found by a sweep");
        }
        assert_eq!(again, is_found);
        assert!(is_found || limits.is_awaited.load(Ordering::SeqCst), "the limit is missed");
        assert!(limits.limits.will_be_swept(), "the next wait must not wake the thread once more");
    });
}

#[test]
fn a_wait_that_is_listed_is_not_missed() {
    is_seen_to(false);
}

#[test]
fn a_wait_that_is_new_is_not_missed() {
    is_seen_to(true);
}

/// Two waits, of which one sees to a sweep for both.
#[test]
fn one_thread_sees_to_a_sweep_for_all() {
    check(3, &["saw to a sweep"], || {
        let limits = Limits::new();
        let waits: [_; 2] = std::array::from_fn(|_| Arc::new(Wait::default()));
        waits.iter().for_each(|wait| limits.limits.add(0, wait.clone()));
        let callers = waits.clone().map(|wait| {
            let limits = limits.clone();
            thread::spawn(move || limits.wait(&wait, false))
        });
        let again = limits.sweep();
        callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
        if again || limits.is_awaited.load(Ordering::SeqCst) {
            limits.sweep();
        }
        assert!(waits.iter().all(|wait| wait.is_found.load(Ordering::SeqCst)), "a limit is missed");
    });
}
