//! Sleep and wake (`scheduler/idle.rs`): no work is left, and no timer, while all threads sleep.
//!
//! The driver takes the steps of `scheduler/find.rs` and `scheduler/host.rs`. Queues are stand-ins whose
//! emptiness is two plain atomic indices, read relaxed: the real ones read more strictly, so the fences of the protocol
//! are all that the models rest on. Work that is left shows as a deadlock: jobs wait for each other, and threads end only
//! when all jobs have run.
//!
//! Time is left out in the safe direction. A parked lookout sleeps until it is woken, unless a timer is pending (it may be
//! due) or the model is about the lookout's own watch (`Habits::watch`); a timer is due as soon as it is set.
//!
//! Own work, which is announced without a fence, is the one thing that may lie while a thread sleeps that could help. Its
//! three promises have a model each: its pusher runs it, a fenced announcement (every `FAIR` steps, here before each step
//! of `Habits::fair`) finds the sleeper, and so does a lookout that watches.
//!
//! Not covered: more than two threads with a worker, so that nobody else sleeps when the lookout has got up; the pauses
//! between looks; the real deque and queues.

mod driver;

use self::driver::*;
use crate::check::check;
use crate::fault::{self, Fault};
use crate::sync::Ordering;
use loom::thread;

const WATCH: Habits = Habits { watch: true, fair: false };
const FAIR: Habits = Habits { watch: false, fair: true };

/// A job from outside meets the only thread, which is going to sleep.
#[test]
fn a_push_from_outside_for_one_thread() {
    check(6, &["woke a sleeper", "parked"], || {
        let world = World::new(1, &[Job::Short], 0, Habits::default());
        model(world, Begin::Awake, || world.push_global(0));
    });
}

/// A job from outside meets two threads that are going to sleep.
#[test]
fn a_push_from_outside() {
    check(2, &["woke a sleeper", "parked"], || {
        let world = World::new(2, &[Job::Short], 0, Habits::default());
        model(world, Begin::Awake, || world.push_global(0));
    });
}

/// Two jobs from outside, the first of which ends only when the other has run: one thread must not keep both to itself.
#[test]
fn a_push_for_each_thread() {
    check(1, &["woke a sleeper", "moved a batch", "parked"], || {
        let world = World::new(2, &[Job::WaitsFor(1), Job::Short], 0, Habits::default());
        model(world, Begin::LainDown, || {
            world.push_global(0);
            world.push_global(1);
        });
    });
}

/// Two jobs from outside, taken as a batch by a thread that comes from a step and does not search.
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

/// A step leaves a job in its thread's deque, without the fence, while the other thread goes to sleep: it is run, by its
/// pusher at the latest.
#[test]
fn own_work_is_not_lost() {
    check(3, &["overlooked a sleeper", "woke a sleeper for own work", "stole", "parked"], || {
        let world = World::new(2, &[Job::Spills(1, 2), Job::Short, Job::Short], 0, Habits::default());
        model(world, Begin::AtWork, || ());
    });
}

/// The same, and the next step of the pusher ends only when the other thread has run that job: the fenced announcement
/// before the step finds the sleeper.
#[test]
fn own_work_is_announced_before_a_long_step() {
    check(3, &["overlooked a sleeper", "woke a sleeper for own work", "woke a sleeper", "stole", "parked"], || {
        let world = World::new(2, &[Job::Spills(1, 2), Job::Short, Job::WaitsFor(1)], 0, FAIR);
        model(world, Begin::AtWork, || ());
    });
}

/// The same without that announcement: the lookout finds the job when it looks again.
#[test]
fn own_work_behind_a_long_step() {
    check(3, &["overlooked a sleeper", "stole", "parked"], || {
        let world = World::new(2, &[Job::Spills(1, 2), Job::Short, Job::WaitsFor(1)], 0, WATCH);
        model(world, Begin::AtWork, || ());
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

/// A timer is set from outside while two threads go to sleep, and one of them stops watching.
#[test]
fn a_timer_for_two_threads() {
    check(2, &["fired a timer", "parked deep"], || {
        let world = World::new(2, &[], 1, Habits::default());
        model(world, Begin::LainDown, || world.set_timer());
    });
}

/// A job in the run-next slot of a thread whose step waits for it: the lookout takes it over.
#[test]
fn a_job_behind_a_long_step() {
    check(4, &["took over", "parked"], || {
        let world = World::new(2, &[Job::Wakes(1), Job::Short], 0, WATCH);
        model(world, Begin::AtWork, || ());
    });
}

/// The same for a thread that was asleep, and while both were.
#[test]
fn a_job_behind_a_long_step_after_a_sleep() {
    check(2, &["woke a lookout", "took over", "parked deep"], || {
        let world = World::new(2, &[Job::Wakes(1), Job::Short], 0, WATCH);
        model(world, Begin::LainDown, || world.push_global(0));
    });
}

/// The same for a thread that lies down and is woken while the lookout decides how long to park. The main thread plays
/// both that thread and the outside, one after the other.
#[test]
fn a_job_behind_a_long_step_after_a_short_sleep() {
    check(3, &["woke a sleeper", "woke a lookout", "took over", "parked deep"], || {
        let world = World::new(2, &[Job::Wakes(1), Job::Short], 0, WATCH);
        let lookout = world.lie_down(0);
        let first = thread::spawn(move || world.wake_up(0, lookout));
        let lookout = world.lie_down(1);
        world.push_global(0);
        world.wake_up(1, lookout);
        first.join().unwrap();
        assert_eq!(world.left.load(Ordering::Relaxed), 0);
    });
}

/// Without P2 and S2 the pusher sees nobody asleep, and the sleeper no work.
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
fn fault_no_look_after_lying_down() {
    fault::with(NO_LOOK_AFTER_LYING_DOWN, a_push_from_outside_for_one_thread);
}

#[test]
#[should_panic = "deadlock"]
fn fault_no_look_after_find() {
    fault::with(NO_LOOK_AFTER_FIND, a_push_for_each_thread);
}

#[test]
#[should_panic = "deadlock"]
fn fault_batch_in_silence() {
    fault::with(BATCH_IN_SILENCE, a_batch_after_a_step);
}

#[test]
#[should_panic = "deadlock"]
fn fault_no_lookout() {
    fault::with(NO_LOOKOUT, a_job_behind_a_long_step_after_a_sleep);
}

#[test]
#[should_panic = "deadlock"]
fn fault_timer_in_silence() {
    fault::with(TIMER_IN_SILENCE, a_timer_for_one_thread);
}

/// Found in the first version of `find.rs`: a timer set while the only thread lies down was never fired.
#[test]
#[should_panic = "deadlock"]
fn fault_no_look_at_timers() {
    fault::with(NO_LOOK_AT_TIMERS, a_timer_for_one_thread);
}

/// Found in earlier versions of `find.rs`, which had three ways to it: the lookout parked without watching, and a thread
/// that was woken later did not know.
#[test]
#[should_panic = "deadlock"]
fn fault_deep_in_silence() {
    fault::with(DEEP_IN_SILENCE, a_job_behind_a_long_step_after_a_sleep);
}

/// A thread that trusted others with its own work would leave it: it may have overlooked them.
#[test]
#[should_panic = "deadlock"]
fn fault_own_work_left() {
    fault::with(OWN_WORK_LEFT, own_work_is_not_lost);
}

#[test]
#[should_panic = "deadlock"]
fn fault_own_work_wakes_nobody() {
    fault::with(OWN_WORK_WAKES_NOBODY, own_work_is_announced_before_a_long_step);
}

#[test]
#[should_panic = "deadlock"]
fn fault_fair_in_silence() {
    fault::with(FAIR_IN_SILENCE, own_work_is_announced_before_a_long_step);
}

#[test]
#[should_panic = "deadlock"]
fn fault_fair_without_fence() {
    fault::with(FAIR_WITHOUT_FENCE, own_work_is_announced_before_a_long_step);
}

/// The lookout wakes for ever, and sees nothing.
#[test]
#[should_panic = "maximum number of branches"]
fn fault_looks_once() {
    fault::with(LOOKS_ONCE, own_work_behind_a_long_step);
}
