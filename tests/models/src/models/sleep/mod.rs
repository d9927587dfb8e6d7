//! Sleep and wake (`engine/permits/sleep.rs`): no work and no timer is left while all threads sleep.
//!
//! The driver repeats the steps of `engine/sched/find.rs` and `engine/host/mod.rs`. The stand-in queues tell whether
//! they are empty by two plain atomic indices, which are read relaxed. The real queues read them more strictly, so the
//! models rely on the protocol's fences alone. If work is left, loom reports a deadlock: jobs wait for each other, and
//! threads end only after all jobs have run.
//!
//! The models have no time, and err on the safe side. A parked poller sleeps until it is woken, unless a timer is
//! pending (since it may be due). A timer is due as soon as it is set. In each round the watchdog (`Habits::watchdog`)
//! does what it does over several ticks in production.
//!
//! Only two kinds of work may be queued while a thread sleeps that could help. One is own work, which is announced
//! without a fence. The other is a process that has used up its time slice, of which possibly no thread is told. Each
//! guarantee for them has a model. The pusher runs the work. A fenced announcement finds the sleeper; it is made every
//! `FAIR` steps, and here before each step if `Habits::fair`. The watchdog's announcement finds the sleeper, too.
//!
//! Not covered: more than two threads with a permit; the pauses between searches; the real deque and queues.

pub(in crate::models) mod driver;
mod waiting;

use self::driver::*;
use crate::check::{check, deep, reach};
use crate::fault::{self, Fault};
use crate::sync::Ordering;
use loom::thread;

const WATCHDOG: Habits = Habits { watchdog: true, takes_over: false, fair: false, limited: false };
const TAKES_OVER: Habits = Habits { watchdog: true, takes_over: true, fair: false, limited: false };
const FAIR: Habits = Habits { watchdog: false, takes_over: false, fair: true, limited: false };
const LIMITED: Habits = Habits { watchdog: false, takes_over: false, fair: false, limited: true };
const LIMITED_AND_WATCHED: Habits = Habits { watchdog: true, takes_over: false, fair: false, limited: true };

/// A job arrives from outside while the only thread goes to sleep.
#[test]
fn a_push_from_outside_for_one_thread() {
    check(6, &["woke a sleeper", "parked"], || {
        let world = World::new(1, &[Job::Short], 0, Habits::default());
        model(world, Begin::Awake, || world.push_global(0));
    });
}

/// A job arrives from outside while two threads go to sleep.
#[test]
fn a_push_from_outside() {
    check(2, &["woke a sleeper", "parked"], || {
        let world = World::new(2, &[Job::Short], 0, Habits::default());
        model(world, Begin::Awake, || world.push_global(0));
    });
}

/// Two jobs come from outside, and the first ends only after the other has run. So one thread must not keep both.
#[test]
fn a_push_for_each_thread() {
    check(1, &["woke a sleeper", "moved a batch", "parked"], || {
        let world = World::new(2, &[Job::WaitsFor(1), Job::Short], 0, Habits::default());
        model(world, Begin::Asleep, || {
            world.push_global(0);
            world.push_global(1);
        });
    });
}

/// Two jobs come from outside. A thread that has ended a step, and does not search, takes them as a batch.
#[test]
fn a_batch_after_a_step() {
    check(1, &["woke a sleeper", "moved a batch", "parked"], || {
        let world = World::new(2, &[Job::Short, Job::WaitsFor(2), Job::Short], 0, Habits::default());
        model(world, Begin::AtWork, || {
            world.push_global(1);
            world.push_global(2);
        });
    });
}

/// A step leaves a job in its thread's deque, without the fence, while the other thread goes to sleep. If no other
/// thread runs the job, the thread that pushed it does.
#[test]
fn own_work_is_not_lost() {
    check(3, &["overlooked a sleeper", "woke a sleeper for own work", "stole", "parked"], || {
        let world = World::new(2, &[Job::Spills(1, 2), Job::Short, Job::Short], 0, Habits::default());
        model(world, Begin::AtWork, || ());
    });
}

/// Like the test above, but the pusher's next step ends only after the other thread has run that job. The fenced
/// announcement before the step finds the sleeper.
#[test]
fn own_work_is_announced_before_a_long_step() {
    check(3, &["overlooked a sleeper", "woke a sleeper for own work", "woke a sleeper", "stole", "parked"], || {
        let world = World::new(2, &[Job::Spills(1, 2), Job::Short, Job::WaitsFor(1)], 0, FAIR);
        model(world, Begin::AtWork, || ());
    });
}

/// Like the test above, without that announcement. The watchdog makes another one.
#[test]
fn own_work_behind_a_long_step() {
    check(deep(1, 2), &["overlooked a sleeper", "stole", "parked"], || {
        let world = World::new(2, &[Job::Spills(1, 2), Job::Short, Job::WaitsFor(1)], 0, WATCHDOG);
        model(world, Begin::AtWork, || world.look_on());
    });
}

/// At most one thread should be awake, but initially both are. A thread that has nothing to run goes to sleep, even if
/// the other one has work. The other thread runs its own work.
#[test]
fn work_is_not_lost_while_a_thread_is_held_back() {
    check(3, &["took from its own queues only", "parked"], || {
        let world = World::new(2, &[Job::Spills(1, 2), Job::Short, Job::Short], 0, LIMITED);
        model(world, Begin::AtWork, || ());
    });
}

/// Like the test above, but the jobs come from outside while both threads are going to sleep. The last thread awake
/// sees the jobs, or is woken.
#[test]
fn work_from_outside_is_not_lost_while_a_thread_is_held_back() {
    check(deep(2, 3), &["took from its own queues only", "woke a sleeper", "parked"], || {
        let world = World::new(2, &[Job::Short, Job::Short], 0, LIMITED);
        model(world, Begin::Awake, || {
            world.push_global(0);
            world.push_global(1);
        });
    });
}

/// A timer wakes the poller, although two threads are then awake.
#[test]
fn a_timer_is_not_lost_while_a_thread_is_held_back() {
    check(deep(2, 3), &["took from its own queues only", "fired a timer", "parked"], || {
        let world = World::new(2, &[Job::Short], 1, LIMITED);
        model(world, Begin::AtWork, || world.set_timer());
    });
}

/// The only thread that is awake is in a step that ends only after another thread has run a queued job. So the watchdog
/// ends the limit.
#[test]
fn work_behind_a_long_step_ends_the_limit() {
    check(deep(1, 2), &["stole", "parked"], || {
        let world = World::new(2, &[Job::Spills(1, 2), Job::Short, Job::WaitsFor(1)], 0, LIMITED_AND_WATCHED);
        model(world, Begin::AtWork, || world.look_on());
    });
}

/// A process that has used up its time slice is not announced, while the other thread goes to sleep. If no other thread
/// runs the process, the thread that pushed it does.
#[test]
fn a_used_slice_is_not_lost() {
    check(3, &["left a sleeper asleep", "parked"], || {
        let world = World::new(2, &[Job::UsesItsSlice(1, Step::Short), Job::Short], 0, Habits::default());
        model(world, Begin::AtWork, || ());
    });
}

/// Like the test above, but the pusher's next step, from the run-next slot, ends only after another thread has run that
/// process. The watchdog announces the process.
#[test]
fn a_used_slice_behind_a_long_step() {
    check(deep(1, 2), &["left a sleeper asleep", "parked"], || {
        let world = World::new(2, &[Job::UsesItsSlice(1, Step::Long), Job::Short], 0, WATCHDOG);
        model(world, Begin::AtWork, || world.look_on());
    });
}

/// A timer is set from outside while the only thread goes to sleep.
#[test]
fn a_timer_for_one_thread() {
    check(6, &["fired a timer", "parked"], || {
        let world = World::new(1, &[], 1, Habits::default());
        model(world, Begin::Awake, || world.set_timer());
    });
}

/// A timer is set from outside while two threads go to sleep.
#[test]
fn a_timer_for_two_threads() {
    check(2, &["fired a timer", "parked"], || {
        let world = World::new(2, &[], 1, Habits::default());
        model(world, Begin::Asleep, || world.set_timer());
    });
}

/// A timer is set while the thread that was the poller is in a step that ends only after the timer has fired. The other
/// thread, which goes to sleep, becomes the poller.
#[test]
fn a_timer_when_the_poller_is_in_a_long_step() {
    check(deep(1, 2), &["woke a sleeper", "fired a timer", "parked"], || {
        let world = World::new(2, &[Job::WaitsFor(1)], 1, Habits::default());
        model(world, Begin::WasPoller, || {
            world.push_global(0);
            world.set_timer();
        });
    });
}

/// A step waits for the job in the run-next slot of its own thread. The watchdog moves the job.
#[test]
fn a_job_behind_a_long_step() {
    check(deep(1, 2), &["moved what was to run next", "woke a sleeper", "parked"], || {
        let world = World::new(2, &[Job::Wakes(1), Job::Short], 0, WATCHDOG);
        model(world, Begin::AtWork, || world.look_on());
    });
}

/// Like the test above, but the threads start on their way to sleep. In their second check they find a job that was
/// pushed earlier. In the meantime the watchdog begins to rest. It sees that a thread has left the list, or is woken
/// (watchdog:G1).
#[test]
fn a_job_behind_a_long_step_while_the_watchdog_comes_to_rest() {
    check(1, &["moved what was to run next", "the watchdog rested", "woke the watchdog", "parked"], || {
        let world = World::new(2, &[Job::Wakes(1), Job::Short], 0, WATCHDOG);
        world.push_unannounced(0);
        model(world, Begin::Asleep, || {
            // The watchdog has already checked the threads.
            world.rest_watchdog();
            world.look_on();
        });
    });
}

/// A process that has used up its time slice waits behind a long step of the only thread, while the watchdog begins to
/// rest (watchdog:G1).
#[test]
fn a_used_slice_behind_a_long_step_while_the_watchdog_comes_to_rest() {
    check(2, &["took over", "the watchdog rested", "woke the watchdog", "parked"], || {
        let world = World::new(1, &[Job::UsesItsSlice(1, Step::Long), Job::Short], 0, TAKES_OVER);
        world.push_unannounced(0);
        model(world, Begin::Asleep, || {
            world.rest_watchdog();
            world.look_on();
        });
    });
}

/// Two jobs arrive from outside for the only thread, and the first ends only after the other has run. In the meantime
/// the watchdog begins to rest (watchdog:G2, in sleep:P3 or in sleep:F3).
#[test]
fn a_push_behind_a_long_step_while_the_watchdog_comes_to_rest() {
    check(2, &["took over", "the watchdog rested", "woke the watchdog", "woke a sleeper", "parked"], || {
        let world = World::new(1, &[Job::WaitsFor(1), Job::Short], 0, TAKES_OVER);
        model(world, Begin::Asleep, || {
            let outside = thread::spawn(|| {
                world.push_global(0);
                world.push_global(1);
            });
            world.rest_watchdog();
            world.look_on();
            outside.join().unwrap();
        });
    });
}

/// Like the test above, with two threads that find the jobs in their second check. The last searcher announces the
/// remaining work.
#[test]
fn a_job_behind_two_long_steps_while_the_watchdog_comes_to_rest() {
    check(1, &["took over", "the watchdog rested", "woke the watchdog", "parked"], || {
        let world = World::new(2, &[Job::WaitsFor(1), Job::Short, Job::WaitsFor(0)], 0, TAKES_OVER);
        (0..3).for_each(|job| world.push_unannounced(job));
        model(world, Begin::Asleep, || {
            world.rest_watchdog();
            world.look_on();
        });
    });
}

/// A timer is set while the only thread is in a step that ends only after the timer has fired, or is waking up for that
/// step. In the meantime the watchdog begins to rest (watchdog:G3, or watchdog:G2 in sleep:F3).
#[test]
fn a_timer_behind_a_long_step_while_the_watchdog_comes_to_rest() {
    check(2, &["took over", "the watchdog rested", "woke the watchdog", "parked"], || {
        let world = World::new(1, &[Job::WaitsFor(1)], 1, TAKES_OVER);
        world.push_unannounced(0);
        model(world, Begin::Asleep, || {
            let outside = thread::spawn(|| world.set_timer());
            world.rest_watchdog();
            world.look_on();
            outside.join().unwrap();
        });
    });
}

/// A step has left a job in its thread's run-next slot and ends. The job is moved during a check for quiescence. The
/// host does not count as quiescent until that job has run.
#[test]
fn what_is_moved_is_not_at_rest() {
    check(3, &["moved what was to run next", "at rest"], || {
        let world = World::new(1, &[Job::Leaves(1), Job::Short, Job::Short], 0, WATCHDOG);
        let watchdog = thread::spawn(|| world.move_run_next(0));
        model(world, Begin::AtWork, || {
            if world.is_at_rest() {
                reach("at rest");
                assert_eq!(world.left.load(Ordering::Relaxed), 1, "a job is in no queue");
            }
            watchdog.join().unwrap();
            world.push_global(2);
        });
    });
}

/// Without sleep:P2 and sleep:S2, the pusher sees no sleeper and the sleeper sees no work.
#[test]
#[should_panic = "deadlock"]
fn fault_no_fences() {
    fault::with(Fault::NoFence, a_push_from_outside_for_one_thread);
}

#[test]
#[should_panic = "deadlock"]
fn fault_announced_too_early() {
    fault::with(ANNOUNCED_TOO_EARLY, a_push_from_outside_for_one_thread);
}

#[test]
#[should_panic = "deadlock"]
fn fault_no_check_after_entering_the_list() {
    fault::with(NO_CHECK_AFTER_ENTERING_THE_LIST, a_push_from_outside_for_one_thread);
}

#[test]
#[should_panic = "deadlock"]
fn fault_no_check_after_find() {
    fault::with(NO_CHECK_AFTER_FIND, a_push_for_each_thread);
}

#[test]
#[should_panic = "deadlock"]
fn fault_batch_unannounced() {
    fault::with(BATCH_UNANNOUNCED, a_batch_after_a_step);
}

#[test]
#[should_panic = "deadlock"]
fn fault_timer_unannounced() {
    fault::with(TIMER_UNANNOUNCED, a_timer_for_one_thread);
}

/// A fault found in the first version of `find.rs`: a timer set while the only thread went to sleep never fired.
#[test]
#[should_panic = "deadlock"]
fn fault_no_check_at_timers() {
    fault::with(NO_CHECK_AT_TIMERS, a_timer_for_one_thread);
}

/// An earlier version had this fault: a thread that had fired a timer, and was not allowed to search because another
/// one was searching, went to sleep without running the job that the timer had queued.
#[test]
#[should_panic]
fn fault_fired_and_left() {
    fault::with(FIRED_AND_LEFT, a_timer_for_two_threads);
}

/// The watchdog keeps sleeping while a step delays the job that the step has woken.
#[test]
#[should_panic = "deadlock"]
fn fault_no_g1() {
    fault::with(NO_G1, a_job_behind_a_long_step_while_the_watchdog_comes_to_rest);
}

#[test]
#[should_panic = "deadlock"]
fn fault_no_g1_for_a_used_slice() {
    fault::with(NO_G1, a_used_slice_behind_a_long_step_while_the_watchdog_comes_to_rest);
}

#[test]
#[should_panic = "deadlock"]
fn fault_no_g2() {
    fault::with(NO_G2, a_push_behind_a_long_step_while_the_watchdog_comes_to_rest);
}

#[test]
#[should_panic = "deadlock"]
fn fault_no_g2_of_two() {
    fault::with(NO_G2, a_job_behind_two_long_steps_while_the_watchdog_comes_to_rest);
}

#[test]
#[should_panic = "deadlock"]
fn fault_no_check_after_find_with_a_watchdog() {
    fault::with(NO_CHECK_AFTER_FIND, a_job_behind_two_long_steps_while_the_watchdog_comes_to_rest);
}

#[test]
#[should_panic = "deadlock"]
fn fault_no_g3() {
    fault::with(NO_G3, a_timer_behind_a_long_step_while_the_watchdog_comes_to_rest);
}

#[test]
#[should_panic = "a job is in no queue"]
fn fault_moved_without_lock() {
    fault::with(MOVED_WITHOUT_LOCK, what_is_moved_is_not_at_rest);
}

/// A thread that leaves its own work to other threads may lose it, since its announcement may have missed them.
#[test]
#[should_panic = "deadlock"]
fn fault_own_work_left() {
    fault::with(OWN_WORK_LEFT, own_work_is_not_lost);
}

#[test]
#[should_panic = "deadlock"]
fn fault_used_slice_left() {
    fault::with(USED_SLICE_LEFT, a_used_slice_is_not_lost);
}

/// The watchdog checks forever and finds nothing.
#[test]
#[should_panic = "maximum number of branches"]
fn fault_no_second_announcement_of_a_used_slice() {
    fault::with(NO_SECOND_ANNOUNCEMENT, a_used_slice_behind_a_long_step);
}

#[test]
#[should_panic = "deadlock"]
fn fault_own_work_wakes_no_thread() {
    fault::with(OWN_WORK_WAKES_NO_THREAD, own_work_is_announced_before_a_long_step);
}

#[test]
#[should_panic = "deadlock"]
fn fault_fair_unannounced() {
    fault::with(FAIR_UNANNOUNCED, own_work_is_announced_before_a_long_step);
}

#[test]
#[should_panic = "deadlock"]
fn fault_fair_without_fence() {
    fault::with(FAIR_WITHOUT_FENCE, own_work_is_announced_before_a_long_step);
}

/// The watchdog checks forever and finds nothing.
#[test]
#[should_panic = "maximum number of branches"]
fn fault_no_second_announcement() {
    fault::with(NO_SECOND_ANNOUNCEMENT, own_work_behind_a_long_step);
}

#[test]
#[should_panic = "deadlock"]
fn fault_no_look_while_limited() {
    fault::with(NO_LOOK_WHILE_LIMITED, work_from_outside_is_not_lost_while_a_thread_is_held_back);
}

/// The watchdog checks forever and finds nothing.
#[test]
#[should_panic = "maximum number of branches"]
fn fault_limited_for_ever() {
    fault::with(LIMITED_FOR_EVER, work_behind_a_long_step_ends_the_limit);
}
