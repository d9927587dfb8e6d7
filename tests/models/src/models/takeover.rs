//! A permit is taken over from a thread that is stuck in a step (`engine/permits/{handoff,holders,sleep}.rs`,
//! handoff:M1 to M4). The jobs that the thread has queued run, whatever it does in the meantime, and no thread is left
//! in the wrong count.
//!
//! There is one permit, a thread that has it, and a spare thread. The driver repeats the steps of `find.rs`,
//! `spare.rs`, `block_in_place.rs` and `watchdog.rs`, without run-next slots (see `sleep`) and timers. The main thread
//! plays the watchdog. Time passes between its observation of a thread and its reaction.
//!
//! Not covered: threads that block or wait for a permit during the take-over, growth, more than one permit.

use crate::check::{check, deep, keep, reach};
use crate::engine::permits::handoff::RestOutcome;
use crate::engine::permits::holders::{HandedOff, Need};
use crate::engine::permits::sleep::{BecameSpare, Idle};
use crate::fault::{self, Fault};
use crate::sync::{AtomicBool, AtomicU8, AtomicUsize, Condvar, Mutex, Ordering, fence, lock, wait};
use crate::thread_cache::tokens::KeepsNothing;
use loom::thread;

/// A planted fault: handoff:M1 does not check whether the thread is still in a step.
const TAKEN_BLINDLY: Fault = Fault::Driver(0);
/// A planted fault: handoff:M4 is omitted.
const NOT_WOKEN: Fault = Fault::Driver(1);
/// A planted fault: handoff:A4 is omitted.
const LEFT_UNANNOUNCED: Fault = Fault::Driver(2);

const CALLED: u8 = 1;
const LOST: u8 = 2;

/// The behaviour of a job.
#[derive(Clone, Copy)]
enum Job {
    Short,
    /// Leaves a job in its thread's deque and waits until that job has run.
    Pushes(usize),
    /// Leaves a job in its thread's deque.
    Leaves(usize),
    /// Uses up its time slice, and is pushed to the global queue under the number of another job, without an
    /// announcement.
    UsesItsSlice(usize),
}

#[derive(Default)]
struct Queue(Mutex<Vec<usize>>);

impl Queue {
    fn push(&self, job: usize) {
        lock(&self.0).push(job);
    }
    fn pop(&self) -> Option<usize> {
        lock(&self.0).pop()
    }
    fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}

#[derive(Default)]
struct Flag(Mutex<bool>, Condvar);

impl Flag {
    fn raise(&self) {
        *lock(&self.0) = true;
        self.1.notify_one();
    }

    fn wait(&self) {
        let mut raised = lock(&self.0);
        while !*raised {
            raised = wait(&self.1, raised);
        }
        *raised = false;
    }
}

#[derive(Default)]
struct Thread {
    deque: Queue,
    attention: AtomicU8,
    running: AtomicBool,
    parked: Flag,
}

struct World {
    idle: Idle,
    global: Queue,
    threads: [Thread; 2],
    jobs: &'static [Job],
    run: [Flag; 3],
    left: AtomicUsize,
    stopped: AtomicBool,
}

impl World {
    fn new(jobs: &'static [Job]) -> &'static Self {
        let idle = Idle::new(1, 2);
        assert_eq!(idle.begin(Some(0)), 0);
        assert_eq!(idle.reserve(Need::Blocking), Some(1));
        idle.started(1);
        let (left, stopped) = (AtomicUsize::new(jobs.len()), AtomicBool::new(false));
        let (threads, run) = ([Thread::default(), Thread::default()], Default::default());
        keep(Self { idle, global: Queue::default(), threads, jobs, run, left, stopped })
    }

    fn announce(&self) {
        if let Some(thread) = self.idle.announce() {
            self.threads[thread].parked.raise();
        }
    }

    fn push_global(&self, job: usize) {
        self.global.push(job);
        self.announce();
    }

    fn has_work(&self) -> bool {
        !self.global.is_empty() || self.threads.iter().any(|thread| !thread.deque.is_empty())
    }

    /// Mirrors `ThreadContext::push_next` with a full run-next slot.
    fn push_own(&self, me: usize, job: usize) {
        if self.threads[me].attention.load(Ordering::Relaxed) & LOST != 0 {
            reach("pushed while detached");
            return self.push_global(job);
        }
        self.threads[me].deque.push(job);
        if let Some(thread) = self.idle.announce_own() {
            self.threads[thread].parked.raise();
        }
    }

    fn run_slice(&self, me: usize, job: usize) {
        self.threads[me].running.store(true, Ordering::Relaxed);
        match self.jobs[job] {
            Job::Short => {}
            Job::Leaves(other) => self.push_own(me, other),
            // Mirrors `ThreadContext::push_used`.
            Job::UsesItsSlice(again) => self.global.push(again),
            Job::Pushes(other) => {
                self.push_own(me, other);
                self.run[other].wait();
            }
        }
        if self.jobs.iter().any(|other| matches!(other, Job::Pushes(awaited) if *awaited == job)) {
            self.run[job].raise();
        }
        self.threads[me].running.store(false, Ordering::Relaxed);
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Mirrors `Scheduler::stop_threads`.
            self.stopped.store(true, Ordering::SeqCst);
            for thread in self.idle.stop() {
                self.threads[thread].attention.fetch_or(CALLED, Ordering::SeqCst);
                self.threads[thread].parked.raise();
            }
        }
    }

    /// Mirrors `ThreadContext::next`.
    fn work(&self, me: usize) {
        loop {
            let called = self.threads[me].attention.load(Ordering::Relaxed) != 0;
            let found = if called { self.next_when_called(me) } else { self.take_near(me).or_else(|| self.search(me)) };
            match found {
                Some(job) => self.run_slice(me, job),
                None => return,
            }
        }
    }

    fn next_when_called(&self, me: usize) -> Option<usize> {
        // Mirrors `Worker::acknowledge`.
        self.threads[me].attention.store(0, Ordering::SeqCst);
        match self.idle.yield_permit(me, KeepsNothing::without_tokens()) {
            None => self.take_near(me).or_else(|| self.search(me)),
            Some(BecameSpare(next)) => {
                reach("became spare after its step");
                assert_eq!(next, None, "no thread waits for a permit");
                if !fault::is(LEFT_UNANNOUNCED) {
                    self.announce();
                }
                if self.rest(me, false) { self.search_on(me, true) } else { None }
            }
        }
    }

    fn take_near(&self, me: usize) -> Option<usize> {
        self.threads[me].deque.pop().or_else(|| self.global.pop())
    }

    fn search(&self, me: usize) -> Option<usize> {
        let searching = self.idle.start_searching();
        self.search_on(me, searching)
    }

    fn search_on(&self, me: usize, mut searching: bool) -> Option<usize> {
        loop {
            let over = self.stopped.load(Ordering::Acquire);
            let look = || self.take_near(me).or_else(|| self.threads[1 - me].deque.pop());
            let found = if searching && !over { look() } else { None };
            if searching && (found.is_some() || over) && self.idle.stop_searching() && self.has_work() {
                self.announce();
            }
            if found.is_some() || over {
                return found;
            }
            // Mirrors `ThreadContext::sleep`.
            self.threads[me].attention.store(0, Ordering::SeqCst);
            let slept = self.idle.begin_sleep(me, searching, false, KeepsNothing::without_tokens());
            assert!(matches!(slept, Ok(false) | Err(BecameSpare(None))), "no thread waits for a permit");
            if !self.rest(me, true) {
                return None;
            }
            searching = true;
        }
    }

    /// Mirrors `ThreadContext::go_on_resting`, with the park that follows.
    fn rest(&self, me: usize, mut looks_again: bool) -> bool {
        loop {
            let asleep = match self.idle.look(me, false) {
                RestOutcome::Up(..) => return true,
                RestOutcome::Ended => return false,
                RestOutcome::Asleep(_) => true,
                RestOutcome::Spare(_) => false,
            };
            if std::mem::take(&mut looks_again) && self.has_work() && !self.idle.is_anyone_searching() {
                if !self.idle.end_sleep(me) {
                    self.announce();
                }
                continue;
            }
            looks_again = asleep;
            self.threads[me].parked.wait();
        }
    }

    /// Performs handoff:M1 to M4 (`Scheduler::take_over`) on a thread that was observed in a step. Returns whether the
    /// thread's permit was taken.
    fn take_over(&self, number: usize) -> bool {
        let thread = &self.threads[number];
        if !thread.running.load(Ordering::Relaxed) {
            return false;
        }
        let is_in_step = || thread.running.load(Ordering::Relaxed) || fault::is(TAKEN_BLINDLY);
        let next = match self.idle.take_over(number, is_in_step) {
            HandedOff::ToSpare(next) => next,
            HandedOff::HadNone => {
                reach("came too late");
                return false;
            }
            other => unreachable!("one thread is spare: {other:?}"),
        };
        reach("took the permit");
        thread.attention.fetch_or(LOST, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !fault::is(NOT_WOKEN) {
            self.threads[next].parked.raise();
        }
        self.announce();
        true
    }

    /// Announces queued work if a thread sleeps, as the watchdog does at each tick.
    fn announce_again(&self) {
        let mut places = Vec::new();
        if self.has_work() && self.idle.sample(&mut places).sleeping > 0 {
            self.announce();
        }
    }
}

/// Runs two threads while the main thread runs `watchdog`. The first thread starts with job 0, and the second is spare.
fn model(world: &'static World, watchdog: impl FnOnce()) {
    let first = thread::spawn(move || {
        world.run_slice(0, 0);
        world.work(0);
    });
    let second = thread::spawn(move || {
        if world.rest(1, false)
            && let Some(job) = world.search_on(1, true)
        {
            world.run_slice(1, job);
            world.work(1);
        }
    });
    watchdog();
    first.join().unwrap();
    second.join().unwrap();
    assert_eq!(world.left.load(Ordering::Relaxed), 0);
}

/// A step pushes a job and waits for it. The job runs, no matter whether the thread lost its permit before or after the
/// push.
#[test]
fn what_a_stuck_step_pushes_runs() {
    check(1, &["took the permit", "became spare after its step"], || {
        let world = World::new(&[Job::Pushes(1), Job::Short]);
        model(world, || {
            while !world.stopped.load(Ordering::Acquire) {
                if !world.take_over(0) {
                    world.announce_again();
                    thread::yield_now();
                }
            }
        });
    });
}

/// A step pushes a job, and ends while its permit is taken. A later job from outside runs, so no thread is wrongly
/// counted as searching.
#[test]
fn a_step_that_ends_while_its_permit_is_taken() {
    check(deep(2, 3), &["took the permit", "came too late", "became spare after its step"], || {
        let world = World::new(&[Job::Leaves(1), Job::Short, Job::Short]);
        model(world, || {
            world.take_over(0);
            world.push_global(2);
        });
    });
}

/// Like the test above, but between the watchdog's check and its take-over the thread goes to sleep and is woken.
#[test]
fn a_sleeper_that_is_about_to_wake_keeps_its_permit() {
    check(2, &["took the permit", "came too late"], || {
        let world = World::new(&[Job::Short, Job::Short, Job::Short]);
        let outside = thread::spawn(move || world.push_global(1));
        model(world, || {
            world.take_over(0);
            outside.join().unwrap();
            world.push_global(2);
        });
    });
}

/// A thread pushes a process that has used up its time slice, without an announcement, and loses its permit at the same
/// time. The thread that then has the permit finds the process, or is woken for it when the first thread becomes spare.
#[test]
fn a_used_slice_is_left_by_one_that_loses_its_permit() {
    check(3, &["took the permit", "came too late", "became spare after its step"], || {
        let world = World::new(&[Job::UsesItsSlice(1), Job::Short]);
        model(world, || {
            world.take_over(0);
        });
    });
}

#[test]
#[should_panic = "deadlock"]
fn fault_left_unannounced() {
    fault::with(LEFT_UNANNOUNCED, a_used_slice_is_left_by_one_that_loses_its_permit);
}

/// A fault found by the stress test in `tests/it/engine/stalls`: the sleeper woke up detached, and was counted as
/// searching forever.
#[test]
#[should_panic = "deadlock"]
fn fault_taken_blindly() {
    fault::with(TAKEN_BLINDLY, a_sleeper_that_is_about_to_wake_keeps_its_permit);
}

#[test]
#[should_panic = "deadlock"]
fn fault_not_woken() {
    fault::with(NOT_WOKEN, a_step_that_ends_while_its_permit_is_taken);
}
