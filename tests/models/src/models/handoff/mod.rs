//! The hand-off of permits (`engine/permits/{handoff,holders,blocking_queue}.rs`, with `sleep.rs`): no two threads have
//! a permit at the same time, no thread waits for one forever, and no work is left.
//!
//! The driver repeats the steps of `block_in_place.rs`, `spare.rs` and `find.rs`. A thread with a permit touches a cell
//! of that permit. If two threads have it at the same time, or one after the other without an order, loom reports a
//! race. If work or a thread is left waiting, loom reports a deadlock: jobs wait for each other, and threads end only
//! after all jobs have run. Threads sleep until they are woken. There is no poller, and only some models have a
//! watchdog.
//!
//! Not covered: how long a thread in the queue waits while others run; the start and the end of threads (`holders` and
//! `blocking_queue` have unit tests); more than three threads or two permits.

mod driver;

use self::driver::*;
use crate::check::{check, deep};
use crate::engine::permits::handoff::RestOutcome;
use crate::engine::permits::holders::{HandedOff, Need};
use crate::fault;
use crate::sync::Arc;
use crate::thread_cache::tokens::KeepsNothing;
use loom::thread;
use std::task::{Wake, Waker};

/// Runs two threads with one permit. The first starts with job 0, and the other is spare. The main thread runs
/// `outside`.
fn one_worker(jobs: &'static [Job], outside: impl FnOnce(&'static World)) {
    let world = World::new(1, 1, jobs);
    let spare = thread::spawn(|| world.stand_by(&Me::new(1, 0)));
    let first = thread::spawn(|| {
        let me = Me::new(0, 0);
        world.run_slice(&me, 0);
        world.work(&me);
    });
    outside(world);
    first.join().unwrap();
    spare.join().unwrap();
    world.rest_is_done();
}

/// A step wakes another process and blocks until that process has run. The thread that gets the permit runs the
/// process.
#[test]
fn what_a_step_that_blocks_was_to_run_next_runs() {
    check(
        4,
        &["handed off to a spare thread", "found what was left behind", "waited in the queue", "displaced a sleeper"],
        || {
            one_worker(&[Job::Blocks(1, 1), Job::Short], |_| ());
        },
    );
}

/// Like the test above, in async code. The next step of the process is queued, or follows at once.
#[test]
fn what_awaits_comes_back_or_waits_its_turn() {
    check(deep(3, 4), &["came back without a permit", "displaced a sleeper", "was called away"], || {
        one_worker(&[Job::Awaits(1, 2), Job::Short, Job::Short], |_| ());
    });
}

/// A job arrives from outside while a thread that blocked comes back for the only permit.
#[test]
fn a_push_from_outside_while_one_comes_back() {
    check(2, &["displaced a sleeper", "waited in the queue", "gave its permit away instead of sleeping"], || {
        one_worker(&[Job::Blocks(1, 1), Job::Short, Job::Short], |world| world.push_global(2));
    });
}

/// A thread comes back for the only permit while other jobs are always ready. It calls the thread that has the permit,
/// and gets the permit from it.
#[test]
fn one_that_comes_back_among_others_that_never_rest() {
    check(2, &["ran again", "waited in the queue", "was called away"], || {
        one_worker(&[Job::Blocks(1, 1), Job::Short, Job::Restless(0)], |world| world.push_global(2));
    });
}

/// A second step blocks while the first may be waiting for the permit. The permit passes to the first, and the job in
/// the run-next slot of the second thread does not stay behind.
#[test]
fn two_that_block_in_turn() {
    check(
        deep(1, 2),
        &["handed off to a thread that waited", "handed off to a spare thread", "waited in the queue"],
        || {
            let world = World::new(1, 2, &[Job::Blocks(1, 3), Job::Raises(3, 2), Job::Short]);
            let first = thread::spawn(|| {
                let me = Me::new(0, 0);
                world.run_slice(&me, 0);
                world.work(&me);
            });
            let second = thread::spawn(|| world.stand_by(&Me::new(2, 0)));
            world.stand_by(&Me::new(1, 0));
            [first, second].into_iter().for_each(|thread| thread.join().unwrap());
            world.rest_is_done();
        },
    );
}

/// There are two permits. A thread is about to sleep. Before it checks the queues again, it loses its permit to a
/// thread that comes back. The step of the returning thread waits for a job that arrives from outside. The sleeper sees
/// the job and must announce it.
#[test]
fn a_sleeper_that_loses_its_permit_tells_others_what_it_sees() {
    check(1, &["announced to others", "displaced a sleeper", "woke a sleeper"], || {
        let world = World::new(2, 1, &[Job::WaitsFor(1), Job::Short]);
        let Ok(poller) = world.idle.begin_sleep(0, false, false, KeepsNothing::without_tokens()) else {
            unreachable!("no thread waits")
        };
        assert_eq!(
            world.idle.hand_off(1, Need::Blocking, false, KeepsNothing::without_tokens()),
            HandedOff::ToSpare(2)
        );
        let sleeper = thread::spawn(move || world.wake_up(&Me::new(0, 0), poller));
        let searcher = thread::spawn(|| world.stand_by(&Me::new(2, 1)));
        let back = thread::spawn(|| {
            let me = Me::new(1, 1);
            world.come_back(&me, false);
            world.run_slice(&me, 0);
            world.work(&me);
        });
        world.push_global(1);
        [sleeper, searcher, back].into_iter().for_each(|thread| thread.join().unwrap());
        world.rest_is_done();
    });
}

/// There are two permits. A step that blocks gives its permit to a waiting thread, whose step needs the job that the
/// first step has woken. The third thread, which is going to sleep, must run that job.
#[test]
fn what_a_thread_that_blocks_leaves_behind_is_found() {
    check(deep(1, 2), &["handed off to a thread that waited"], || {
        let world = World::new(2, 1, &[Job::Blocks(2, 1), Job::WaitsFor(2), Job::Short]);
        assert_eq!(
            world.idle.hand_off(0, Need::Blocking, false, KeepsNothing::without_tokens()),
            HandedOff::ToSpare(2)
        );
        assert_eq!(world.idle.look(2, false), RestOutcome::Up(0, Some(0)));
        assert!(world.idle.stop_searching());
        let waits = world.idle.come_back(0, false);
        let leaves = thread::spawn(|| {
            let me = Me::new(2, 0);
            world.run_slice(&me, 0);
            world.work(&me);
        });
        let back = thread::spawn(|| {
            let me = Me::new(0, 0);
            world.continue_with(&me, waits);
            world.run_slice(&me, 1);
            world.work(&me);
        });
        world.work(&Me::new(1, 1));
        [leaves, back].into_iter().for_each(|thread| thread.join().unwrap());
        world.rest_is_done();
    });
}

/// The host stops while a thread that blocked comes back. The thread continues, with or without a permit.
#[test]
fn a_stop_while_one_comes_back() {
    check(3, &["waited in the queue", "came back without a permit"], || {
        let world = World::new(1, 1, &[]);
        assert_eq!(
            world.idle.hand_off(0, Need::Blocking, false, KeepsNothing::without_tokens()),
            HandedOff::ToSpare(1)
        );
        let back = thread::spawn(|| {
            let me = Me::new(0, 0);
            world.come_back(&me, false);
            world.work(&me);
        });
        let other = thread::spawn(|| world.stand_by(&Me::new(1, 0)));
        world.stop();
        [back, other].into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A step that does not end fills its run-next slot before its permit is taken over for a waiting thread.
#[test]
fn what_waits_behind_a_stalled_step_is_taken_over() {
    check(deep(2, 3), &["took over", "moved a run-next slot", "waited in the queue"], || {
        let world = World::new(1, 1, &[Job::Hogs { job: 1, late: false }, Job::Short]);
        assert_eq!(
            world.idle.hand_off(0, Need::Blocking, false, KeepsNothing::without_tokens()),
            HandedOff::ToSpare(1)
        );
        assert_eq!(world.idle.look(1, false), RestOutcome::Up(0, Some(0)));
        assert!(world.idle.stop_searching());
        let waits = world.idle.come_back(0, false);
        let stalled = thread::spawn(|| {
            let me = Me::new(1, 0);
            world.run_slice(&me, 0);
            world.work(&me);
        });
        let back = thread::spawn(|| {
            let me = Me::new(0, 0);
            world.continue_with(&me, waits);
            world.work(&me);
        });
        world.pushed.wait();
        world.take_over(1);
        [stalled, back].into_iter().for_each(|thread| thread.join().unwrap());
        world.rest_is_done();
    });
}

/// The step fills its run-next slot at any moment of the take-over. The watchdog finds the job in its next check at the
/// latest.
#[test]
fn what_a_stalled_step_wakes_while_it_is_taken_over_is_found() {
    check(2, &["took over", "moved a run-next slot", "pushed without a permit"], || {
        one_worker(&[Job::Hogs { job: 1, late: false }, Job::Short], |world| {
            world.take_over(0);
            world.pushed.wait();
            world.surface(0);
        });
    });
}

/// The step fills its run-next slot after the take-over. Other threads run the job without the watchdog.
#[test]
fn what_a_step_that_was_taken_over_wakes_runs() {
    check(2, &["took over", "pushed without a permit", "was called away"], || {
        one_worker(&[Job::Hogs { job: 1, late: true }, Job::Short], |world| {
            world.take_over(0);
            world.taken_over.raise();
        });
    });
}

/// A waker that raises a flag on which a thread of the model waits.
struct Wakes(&'static super::sleep::driver::Flag);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.raise();
    }
}

/// At the thread limit, an async step joins the blocking queue while a thread becomes free. The step is then woken.
#[test]
fn a_thread_that_comes_free_is_given_to_the_line() {
    check(4, &["queued", "came back without a permit"], || {
        let world = World::new(1, 1, &[]);
        let flag = crate::check::keep(super::sleep::driver::Flag::new());
        // The first thread has blocked, and the spare thread has got its permit.
        assert_eq!(
            world.idle.hand_off(0, Need::Blocking, false, KeepsNothing::without_tokens()),
            HandedOff::ToSpare(1)
        );
        assert!(matches!(world.idle.look(1, false), RestOutcome::Up(0, Some(0))));
        assert!(world.idle.stop_searching());
        let back = thread::spawn(|| world.leave_step(&Me::new(0, 0)));
        let mut ticket = None;
        let next = loop {
            match world
                .idle
                .hand_off_or_queue(1, ticket, Waker::from(Arc::new(Wakes(flag))), KeepsNothing::without_tokens())
                .0
            {
                Ok(handed_off) => break handed_off,
                Err(place) => {
                    crate::check::reach("queued");
                    ticket = Some(place);
                    flag.wait();
                }
            }
        };
        assert_eq!(next, HandedOff::ToSpare(0));
        back.join().unwrap();
    });
}

#[test]
#[should_panic = "deadlock"]
fn fault_keeps_run_next() {
    fault::with(KEEPS_RUN_NEXT, what_a_step_that_blocks_was_to_run_next_runs);
}

#[test]
#[should_panic = "deadlock"]
fn fault_loses_unannounced() {
    fault::with(LOSES_UNANNOUNCED, a_sleeper_that_loses_its_permit_tells_others_what_it_sees);
}

#[test]
#[should_panic = "deadlock"]
fn fault_run_next_is_left() {
    fault::with(RUN_NEXT_IS_LEFT, what_waits_behind_a_stalled_step_is_taken_over);
}

#[test]
#[should_panic = "deadlock"]
fn fault_loss_not_signalled() {
    fault::with(LOSS_NOT_SIGNALLED, what_a_step_that_was_taken_over_wakes_runs);
}

#[test]
#[should_panic = "deadlock"]
fn fault_queue_is_forgotten() {
    fault::with(QUEUE_IS_FORGOTTEN, a_thread_that_comes_free_is_given_to_the_line);
}

#[test]
#[should_panic = "Concurrent write accesses"]
fn fault_keeps_its_old_permit() {
    fault::with(KEEPS_ITS_OLD_PERMIT, a_push_from_outside_while_one_comes_back);
}

#[test]
#[should_panic = "exceeded maximum number of branches"]
fn fault_calls_no_thread() {
    fault::with(CALLS_NO_THREAD, one_that_comes_back_among_others_that_never_rest);
}
