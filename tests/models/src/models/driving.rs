//! The poller that parks in the reactor (`engine/sched/driving.rs`, driving:D2 and D3). In the reactor it queues
//! processes without announcing them, because it checks the queues afterwards, like a thread that has just gone to
//! sleep.
//!
//! Covered: the races between that check and a thread that ends its search, and between that check and a thread that
//! announces other work. Not covered: Tokio; the lock of its driver, for which threads never wait; calls, which are
//! guarded by a lock.

use crate::check::{check, keep, reach};
use crate::engine::permits::handoff::RestOutcome;
use crate::engine::permits::sleep::Idle;
use crate::fault::{self, Fault};
use crate::models::sleep::driver::Flag;
use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, fence, lock, wait};
use crate::thread_cache::tokens::KeepsNothing;
use loom::thread;

/// A planted fault: driving:D3 lacks its fence.
const NO_FENCE_AFTER_QUEUEING: Fault = Fault::Driver(0);
/// A planted fault: driving:D3 is omitted. The poller parks again without checking the queues.
const NO_CHECK_AFTER_QUEUEING: Fault = Fault::Driver(1);
/// A planted fault: sleep:S3 is omitted for the other thread.
const NO_CHECK_AFTER_SEARCH: Fault = Fault::Driver(2);

/// What a thread parks on. It is woken by a call or an event.
#[derive(Default)]
struct Parked {
    called: bool,
    /// Whether the system has delivered an event.
    event: bool,
}

struct World {
    idle: Idle,
    /// The number of jobs in the shared queue: a plain index, as in the production queues.
    queued: AtomicUsize,
    parked: [(Mutex<Parked>, Condvar); 2],
    /// The number of jobs that have not run.
    left: AtomicUsize,
    /// Whether the other thread's job ends only after the poller has run a job.
    is_long: bool,
    ran: Flag,
}

impl World {
    fn new(jobs: usize, is_long: bool) -> &'static Self {
        let idle = Idle::new(2, 2);
        (0..2).for_each(|permit| _ = idle.begin(Some(permit)));
        let parked = || (Mutex::new(Parked::default()), Condvar::new());
        let (queued, left) = (AtomicUsize::new(0), AtomicUsize::new(jobs));
        keep(Self { idle, queued, parked: [parked(), parked()], left, is_long, ran: Flag::new() })
    }

    fn tell(&self, thread: usize, change: impl FnOnce(&mut Parked)) {
        change(&mut lock(&self.parked[thread].0));
        self.parked[thread].1.notify_one();
    }

    /// Parks the thread. Returns whether an event woke it.
    fn park(&self, me: usize) -> bool {
        let mut parked = lock(&self.parked[me].0);
        while !(parked.called || parked.event) {
            parked = wait(&self.parked[me].1, parked);
        }
        parked.called = false;
        std::mem::take(&mut parked.event)
    }

    fn announce(&self) {
        if let Some(thread) = self.idle.announce() {
            reach("called a thread");
            self.tell(thread, |parked| parked.called = true);
        }
    }

    fn has_work(&self) -> bool {
        self.queued.load(Ordering::Relaxed) > 0
    }

    fn take(&self) -> bool {
        let mut queued = self.queued.load(Ordering::Acquire);
        while queued > 0 {
            match self.queued.compare_exchange(queued, queued - 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => queued = now,
            }
        }
        false
    }

    /// Ends a job. The last job to end also ends the model.
    fn done(&self, me: usize) {
        if self.is_long && me == 0 {
            self.ran.raise();
        } else if self.is_long {
            self.ran.wait();
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            for thread in self.idle.stop() {
                self.tell(thread, |parked| parked.called = true);
            }
        }
    }

    /// Mirrors `ThreadContext::next`, `ThreadContext::search` and `ThreadContext::sleep`.
    fn work(&self, me: usize, mut searching: bool) {
        loop {
            if self.take() {
                if std::mem::take(&mut searching) && self.idle.stop_searching() && self.has_work() {
                    self.announce();
                }
                self.done(me);
            } else if self.left.load(Ordering::Acquire) == 0 {
                if searching {
                    self.idle.stop_searching();
                }
                return;
            } else if !searching && self.idle.start_searching() {
                searching = true;
            } else {
                let Ok(_) = self.idle.begin_sleep(me, searching, me == 0, KeepsNothing::without_tokens()) else {
                    unreachable!("no thread waits for a permit")
                };
                if !self.rest(me) {
                    return;
                }
                searching = true;
            }
        }
    }

    /// Mirrors `ThreadContext::go_on_resting`, with the park that follows. Returns whether the thread searches again.
    fn rest(&self, me: usize) -> bool {
        let mut looks = !(me == 1 && fault::is(NO_CHECK_AFTER_SEARCH));
        loop {
            match self.idle.look(me, me == 0) {
                RestOutcome::Up(..) => return true,
                RestOutcome::Ended => return false,
                RestOutcome::Asleep(_) => {}
                RestOutcome::Spare(_) => unreachable!("no thread takes its permit"),
            }
            if looks && self.has_work() && !self.idle.is_anyone_searching() {
                reach(if me == 0 { "the poller left the list" } else { "the other left the list" });
                assert!(self.idle.end_sleep(me), "no thread takes its permit");
                continue;
            }
            looks = true;
            if self.park(me) {
                // driving:D2.
                self.queued.fetch_add(1, Ordering::Release);
                if !fault::is(NO_FENCE_AFTER_QUEUEING) {
                    fence(Ordering::SeqCst);
                }
                if self.idle.is_anyone_searching() {
                    reach("queued while a thread searched");
                }
                looks = !fault::is(NO_CHECK_AFTER_QUEUEING);
            }
        }
    }
}

/// Starts with the first thread parked in the reactor as the poller, while the system has an event for it. The other
/// thread looks for work. The event queues one job, and all others come from outside.
fn model(jobs: usize, is_long: bool) {
    let world = World::new(jobs, is_long);
    assert_eq!(world.idle.begin_sleep(0, false, true, KeepsNothing::without_tokens()), Ok(true));
    let poller = thread::spawn(move || {
        if world.rest(0) {
            world.work(0, true);
        }
    });
    let other = thread::spawn(move || world.work(1, false));
    world.tell(0, |parked| parked.event = true);
    for _ in 1..jobs {
        world.queued.fetch_add(1, Ordering::Release);
        world.announce();
    }
    poller.join().unwrap();
    other.join().unwrap();
    assert_eq!(world.left.load(Ordering::Relaxed), 0);
}

#[test]
fn what_the_reactor_wakes_is_run() {
    let places = ["queued while a thread searched", "the poller left the list", "the other left the list"];
    check(3, &places, || model(1, false));
}

#[test]
fn what_the_reactor_wakes_is_run_beside_work_from_outside() {
    check(2, &["called a thread"], || model(2, false));
}

/// One thread is in a long step, and neither job is stuck behind it.
#[test]
fn what_the_reactor_wakes_is_run_beside_a_long_step() {
    check(2, &["called a thread", "the poller left the list"], || model(2, true));
}

#[test]
#[should_panic]
fn fault_no_fence_after_queueing() {
    fault::with(NO_FENCE_AFTER_QUEUEING, what_the_reactor_wakes_is_run_beside_a_long_step);
}

#[test]
#[should_panic]
fn fault_no_check_after_queueing() {
    fault::with(NO_CHECK_AFTER_QUEUEING, what_the_reactor_wakes_is_run);
}

#[test]
#[should_panic]
fn fault_no_check_after_search() {
    fault::with(NO_CHECK_AFTER_SEARCH, what_the_reactor_wakes_is_run);
}
