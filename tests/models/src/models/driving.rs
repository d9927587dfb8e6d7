//! The poller that parks in the reactor (`engine/sched/driving.rs`, driving:D2 and D3): what it queues there is
//! announced to nobody, since it looks at the queues afterwards, as if it had just lain down.
//!
//! Covered: its look against a thread that searches and ends its search, and against somebody who announces other work.
//! Not covered: Tokio, and who drives it (a lock that is only tried); calls, which go by a lock.

use crate::check::{check, keep, reach};
use crate::engine::permits::handoff::RestOutcome;
use crate::engine::permits::sleep::Idle;
use crate::fault::{self, Fault};
use crate::models::sleep::driver::Flag;
use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, fence, lock, wait};
use loom::thread;

/// driving:D3 without its fence.
const NO_FENCE_AFTER_QUEUEING: Fault = Fault::Driver(0);
/// driving:D3 is left out: the poller parks again without a look.
const NO_LOOK_AFTER_QUEUEING: Fault = Fault::Driver(1);
/// sleep:S3 is left out for the other thread.
const NO_LOOK_AFTER_SEARCH: Fault = Fault::Driver(2);

/// What a thread parks on: calls and events end it.
#[derive(Default)]
struct Parked {
    called: bool,
    /// Something has come from the system.
    event: bool,
}

struct World {
    idle: Idle,
    /// How many jobs are queued where all look: its emptiness is a plain index, as that of production's queues.
    queued: AtomicUsize,
    parked: [(Mutex<Parked>, Condvar); 2],
    /// The jobs that have not run.
    left: AtomicUsize,
    /// The other thread's job ends only when the poller has run one.
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

    /// Gives whether an event ended it.
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
            reach("called somebody");
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

    /// A job has run; the last one ends the model.
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

    /// `next`, `search` and `sleep`.
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
                let Ok(_) = self.idle.begin_sleep(me, searching, me == 0) else {
                    unreachable!("nobody waits for a worker")
                };
                if !self.rest(me) {
                    return;
                }
                searching = true;
            }
        }
    }

    /// `rest`: gives whether the thread searches again.
    fn rest(&self, me: usize) -> bool {
        let mut looks = !(me == 1 && fault::is(NO_LOOK_AFTER_SEARCH));
        loop {
            match self.idle.look(me, me == 0) {
                RestOutcome::Up(..) => return true,
                RestOutcome::Ended => return false,
                RestOutcome::Asleep(_) => {}
                RestOutcome::Spare(_) => unreachable!("nobody takes its worker"),
            }
            if looks && self.has_work() && !self.idle.is_anyone_searching() {
                reach(if me == 0 { "the poller got up" } else { "the other got up" });
                assert!(self.idle.end_sleep(me), "nobody takes its worker");
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
                    reach("queued while somebody searched");
                }
                looks = !fault::is(NO_LOOK_AFTER_QUEUEING);
            }
        }
    }
}

/// The first thread lies in the reactor, as the poller, and the system has something for it; the other looks for work.
/// Jobs besides that one come from outside.
fn model(jobs: usize, is_long: bool) {
    let world = World::new(jobs, is_long);
    assert_eq!(world.idle.begin_sleep(0, false, true), Ok(true));
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
    let places = ["queued while somebody searched", "the poller got up", "the other got up"];
    check(3, &places, || model(1, false));
}

#[test]
fn what_the_reactor_wakes_is_run_beside_work_from_outside() {
    check(2, &["called somebody"], || model(2, false));
}

/// Neither is left to a thread that is in a long step.
#[test]
fn what_the_reactor_wakes_is_run_beside_a_long_step() {
    check(2, &["called somebody", "the poller got up"], || model(2, true));
}

#[test]
#[should_panic]
fn fault_no_fence_after_queueing() {
    fault::with(NO_FENCE_AFTER_QUEUEING, what_the_reactor_wakes_is_run_beside_a_long_step);
}

#[test]
#[should_panic]
fn fault_no_look_after_queueing() {
    fault::with(NO_LOOK_AFTER_QUEUEING, what_the_reactor_wakes_is_run);
}

#[test]
#[should_panic]
fn fault_no_look_after_search() {
    fault::with(NO_LOOK_AFTER_SEARCH, what_the_reactor_wakes_is_run);
}
