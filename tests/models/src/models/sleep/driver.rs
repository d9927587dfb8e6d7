//! Threads that look for work and go to sleep: the steps of `engine/sched/find.rs` and `engine/host/mod.rs`, each
//! named after its production function.

use crate::check::{keep, reach};
use crate::engine::permits::handoff::RestOutcome;
use crate::engine::permits::sleep::Idle;
use crate::fault::{self, Fault};
use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, fence, lock, wait};
use crate::thread_cache::tokens::KeepsNothing;
use loom::thread;

/// sleep:F3 is omitted: a searcher that finds work does not check whether there is more.
pub(super) const NO_CHECK_AFTER_FIND: Fault = Fault::Driver(0);
/// sleep:S3 is omitted: a thread that goes to sleep does not check the queues again.
pub(super) const NO_CHECK_AFTER_ENTERING_THE_LIST: Fault = Fault::Driver(1);
/// sleep:P1 and P3 are swapped: a pusher checks for sleepers before it pushes.
pub(super) const ANNOUNCED_TOO_EARLY: Fault = Fault::Driver(2);
/// A batch that was moved to a deque is not announced.
pub(super) const BATCH_UNANNOUNCED: Fault = Fault::Driver(3);
/// A new timer is not announced.
pub(super) const TIMER_UNANNOUNCED: Fault = Fault::Driver(5);
/// A thread that goes to sleep does not check again whether a timer has been set.
pub(super) const NO_CHECK_AT_TIMERS: Fault = Fault::Driver(6);
/// A thread that got its permit while the watchdog rested queues a job without ending that rest.
pub(super) const NO_G1: Fault = Fault::Driver(7);
/// An announcement that finds no thread to call does not end the rest of the watchdog.
pub(super) const NO_G2: Fault = Fault::Driver(14);
/// A timer that is set while there is no thread to fire it does not end the rest of the watchdog.
pub(super) const NO_G3: Fault = Fault::Driver(15);
/// A thread leaves the jobs in its own deque to others.
pub(super) const OWN_WORK_LEFT: Fault = Fault::Driver(8);
/// A thread leaves a process that has used up its time slice to others.
pub(super) const USED_SLICE_LEFT: Fault = Fault::Driver(13);
/// The announcement of a thread's own deque every `FAIR` steps is omitted.
pub(super) const FAIR_UNANNOUNCED: Fault = Fault::Driver(9);
/// The same announcement is made without its fence.
pub(super) const FAIR_WITHOUT_FENCE: Fault = Fault::Driver(10);
/// The watchdog checks only the run-next slots.
pub(super) const NO_SECOND_ANNOUNCEMENT: Fault = Fault::Driver(11);
/// A sleeper that is removed from the list to run another thread's own work is not woken.
pub(super) const OWN_WORK_WAKES_NO_THREAD: Fault = Fault::Driver(12);
/// A thread that has fired a timer may go to sleep without running the job that the timer has queued.
pub(super) const FIRED_AND_LEFT: Fault = Fault::Driver(16);
/// The watchdog moves the job in a run-next slot without the lock that keeps its thread from going to sleep.
pub(super) const MOVED_WITHOUT_LOCK: Fault = Fault::Driver(4);

/// A sleeper that is held back by the limit does not check the queues again. Nor does the last thread awake.
pub(super) const NO_LOOK_WHILE_LIMITED: Fault = Fault::Driver(17);
/// The watchdog never ends the limit on awake threads.
pub(super) const LIMITED_FOR_EVER: Fault = Fault::Driver(18);

/// The maximum number of threads of a model.
const THREADS: usize = 2;

/// A queue of jobs: one thread pushes, any thread takes.
pub(in crate::models) struct Queue {
    jobs: [AtomicUsize; 3],
    pushed: AtomicUsize,
    taken: AtomicUsize,
}

impl Queue {
    pub(in crate::models) fn new() -> Self {
        Self {
            jobs: [AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0)],
            pushed: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
        }
    }

    pub(in crate::models) fn push(&self, job: usize) {
        let place = self.pushed.load(Ordering::Relaxed);
        self.jobs[place].store(job, Ordering::Relaxed);
        self.pushed.store(place + 1, Ordering::Release);
    }

    pub(in crate::models) fn is_empty(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.pushed.load(Ordering::Relaxed)
    }

    pub(in crate::models) fn pop(&self) -> Option<usize> {
        let place = self.taken.load(Ordering::Relaxed);
        if place >= self.pushed.load(Ordering::Acquire) {
            return None;
        }
        let job = self.jobs[place].load(Ordering::Relaxed);
        self.taken.compare_exchange(place, place + 1, Ordering::AcqRel, Ordering::Relaxed).ok().map(|_| job)
    }
}

/// A flag that a thread parks on, or that a job waits for. The waiter clears it.
pub(in crate::models) struct Flag {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Flag {
    pub(in crate::models) fn new() -> Self {
        Self { raised: Mutex::new(false), changed: Condvar::new() }
    }

    pub(in crate::models) fn raise(&self) {
        *lock(&self.raised) = true;
        self.changed.notify_one();
    }

    pub(in crate::models) fn is_raised(&self) -> bool {
        *lock(&self.raised)
    }

    pub(in crate::models) fn wait(&self) {
        let mut raised = lock(&self.raised);
        while !*raised {
            raised = wait(&self.changed, raised);
        }
        *raised = false;
    }
}

/// The behaviour of a job.
#[derive(Clone, Copy)]
pub(super) enum Job {
    /// Does nothing.
    Short,
    /// Waits until the job with the given number has run.
    WaitsFor(usize),
    /// Puts a job into the run-next slot of its thread, and waits until it has run.
    Wakes(usize),
    /// Puts a job into the run-next slot of its thread.
    Leaves(usize),
    /// Puts a job into the run-next slot of its thread, and then another one, which displaces the first to the deque.
    Spills(usize, usize),
    /// Uses up its time slice, and is put into the global queue under the number of another job. The thread's next step
    /// is either a long one, which waits until that job has run, or a short one.
    UsesItsSlice(usize, Step),
}

/// The step that a thread runs from its run-next slot after a process has used up its time slice.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// A step that ends at once.
    Short,
    /// A step that ends only after the process that used up its time slice has run.
    Long,
}

/// A flag that is invisible to loom, so it orders nothing. It is only used to [`reach`] places.
type Unseen = std::sync::atomic::AtomicBool;

/// How the threads of a world behave.
#[derive(Clone, Copy, Default)]
pub(super) struct Habits {
    /// Whether the main thread plays the watchdog.
    pub(super) watchdog: bool,
    /// Whether, if no permit is idle, the watchdog has another thread run the waiting jobs.
    pub(super) takes_over: bool,
    /// Whether each thread does before every step what production threads do every `FAIR` steps.
    pub(super) fair: bool,
    /// Whether only one thread should be awake at a time.
    pub(super) limited: bool,
}

pub(super) struct World {
    threads: usize,
    pub(super) idle: Idle,
    global: Queue,
    deques: [Queue; THREADS],
    /// The run-next slot of each thread: zero if it is empty, or else the job's number plus one.
    next: [AtomicUsize; THREADS],
    parked: [Flag; THREADS],
    watchdog: Flag,
    jobs: &'static [Job],
    /// The jobs that have run.
    run: [Flag; 3],
    pub(super) left: AtomicUsize,
    /// Whether a timer is pending. It is due at once. The job that it queues has the next number after those of all
    /// other jobs.
    timer: AtomicBool,
    stopped: AtomicBool,
    habits: Habits,
    asleep: [Unseen; THREADS],
    /// For each thread, whether it got its permit while the watchdog rested. Only that thread uses its entry.
    unwatched: [Unseen; THREADS],
}

impl World {
    pub(super) fn new(threads: usize, jobs: &'static [Job], timers: usize, habits: Habits) -> &'static Self {
        let idle = Idle::new(threads, threads);
        (0..threads).for_each(|permit| _ = idle.begin(Some(permit)));
        if habits.limited {
            idle.limit_awake(1);
        }
        keep(Self {
            threads,
            idle,
            global: Queue::new(),
            deques: [Queue::new(), Queue::new()],
            next: [AtomicUsize::new(0), AtomicUsize::new(0)],
            parked: [Flag::new(), Flag::new()],
            watchdog: Flag::new(),
            jobs,
            run: [Flag::new(), Flag::new(), Flag::new()],
            left: AtomicUsize::new(jobs.len() + timers),
            timer: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            habits,
            asleep: [Unseen::new(false), Unseen::new(false)],
            unwatched: [Unseen::new(false), Unseen::new(false)],
        })
    }

    /// Mirrors `Scheduler::announce`.
    fn announce(&self) {
        match self.idle.announce() {
            Some(thread) => {
                reach("woke a sleeper");
                self.unpark(thread);
            }
            None if self.idle.is_anyone_searching() || fault::is(NO_G2) => {}
            None => self.notify_watchdog(),
        }
    }

    /// Mirrors `Scheduler::unpark`.
    fn unpark(&self, thread: usize) {
        self.parked[thread].raise();
    }

    /// Mirrors `ThreadContext::see_to_watch`.
    fn see_to_watch(&self, me: usize) {
        self.unwatched[me].store(self.idle.does_watchdog_rest(), Ordering::Relaxed);
    }

    /// Mirrors `ThreadContext::be_watched`.
    fn be_watched(&self, me: usize) {
        if self.unwatched[me].swap(false, Ordering::Relaxed) && !fault::is(NO_G1) {
            self.notify_watchdog();
        }
    }

    /// Mirrors `Scheduler::notify_watchdog`.
    fn notify_watchdog(&self) {
        if self.habits.watchdog && self.idle.does_watchdog_rest() {
            reach("woke the watchdog");
            self.wake_watchdog();
        }
    }

    /// Mirrors `Scheduler::wake_watchdog`.
    fn wake_watchdog(&self) {
        let _rested = self.idle.end_watchdog_rest();
        self.watchdog.raise();
    }

    /// Performs sleep:P1 alone: pushes a job without announcing it.
    pub(super) fn push_unannounced(&self, job: usize) {
        self.global.push(job);
    }

    /// Mirrors `Scheduler::push_global`.
    pub(super) fn push_global(&self, job: usize) {
        if fault::is(ANNOUNCED_TOO_EARLY) {
            self.announce();
            self.global.push(job);
            return;
        }
        self.global.push(job);
        self.announce();
    }

    /// Mirrors `Scheduler::set_timer`.
    pub(super) fn set_timer(&self) {
        self.timer.store(true, Ordering::SeqCst);
        if fault::is(TIMER_UNANNOUNCED) {
            return;
        }
        match self.idle.timer_set() {
            Some(thread) => self.unpark(thread),
            None if fault::is(NO_G3) => {}
            None => self.notify_watchdog(),
        }
    }

    /// Mirrors `Scheduler::has_work`, called by thread `me`.
    fn has_work(&self, me: usize) -> bool {
        let looks_at = |thread| thread != me || !fault::is(OWN_WORK_LEFT);
        let looks_at_global = me != 0 || !fault::is(USED_SLICE_LEFT);
        looks_at_global && !self.global.is_empty()
            || (0..THREADS).any(|thread| looks_at(thread) && !self.deques[thread].is_empty())
    }

    /// Mirrors `Scheduler::has_unkept_timers`.
    fn has_unkept_timers(&self) -> bool {
        self.timer.load(Ordering::SeqCst) && !self.idle.has_poller()
    }

    /// Counts a job, or the timer's action, as done.
    fn done(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Mirrors `Scheduler::stop_threads`.
            self.stopped.store(true, Ordering::SeqCst);
            for thread in self.idle.stop() {
                self.parked[thread].raise();
            }
            if self.habits.watchdog {
                self.wake_watchdog();
            }
        }
    }

    /// Mirrors `ThreadContext::push_next`.
    fn push_next(&self, me: usize, job: usize) {
        let next = &self.next[me];
        // Mirrors `LocalTokens::put_next`.
        let displaced = if next.load(Ordering::Relaxed) == 0 {
            next.store(job + 1, Ordering::Release);
            None
        } else {
            next.swap(job + 1, Ordering::AcqRel).checked_sub(1)
        };
        self.be_watched(me);
        if let Some(displaced) = displaced {
            self.push_own(me, displaced);
        }
    }

    /// Pushes a thread's own work, without sleep:P2.
    fn push_own(&self, me: usize, job: usize) {
        let other_asleep = self.asleep[1 - me].load(Ordering::Relaxed);
        self.deques[me].push(job);
        match self.idle.announce_own() {
            Some(thread) => {
                reach("woke a sleeper for own work");
                if !fault::is(OWN_WORK_WAKES_NO_THREAD) {
                    self.unpark(thread);
                }
            }
            None if other_asleep => reach("overlooked a sleeper"),
            None => {}
        }
    }

    /// Mirrors `ThreadContext::be_fair`.
    fn be_fair(&self, me: usize) {
        if !self.habits.fair || fault::is(FAIR_UNANNOUNCED) || self.deques[me].is_empty() {
            return;
        }
        if fault::is(FAIR_WITHOUT_FENCE) {
            self.idle.announce_own().inspect(|&thread| self.unpark(thread));
        } else {
            self.announce();
        }
    }

    fn take_next(&self, thread: usize) -> Option<usize> {
        if self.next[thread].load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.next[thread].swap(0, Ordering::AcqRel).checked_sub(1)
    }

    /// Returns the job with this number: one of the jobs, or the timer's.
    fn job(&self, number: usize) -> Job {
        self.jobs.get(number).copied().unwrap_or(Job::Short)
    }

    /// Runs one job, as `ThreadContext::run_slice` runs a step.
    fn run_slice(&self, me: usize, job: usize) {
        match self.job(job) {
            Job::Short => {}
            Job::WaitsFor(other) => self.run[other].wait(),
            Job::Wakes(other) => {
                self.push_next(me, other);
                self.run[other].wait();
            }
            Job::Leaves(other) => self.push_next(me, other),
            Job::Spills(first, second) => {
                self.push_next(me, first);
                self.push_next(me, second);
            }
            Job::UsesItsSlice(again, next) => {
                // Mirrors `ThreadContext::push_used`: without sleep:P2 to P5.
                self.push_unannounced(again);
                self.be_watched(me);
                if self.asleep[1 - me].load(Ordering::Relaxed) {
                    reach("left a sleeper asleep");
                }
                if matches!(next, Step::Long) {
                    self.run[again].wait();
                }
            }
        }
        self.has_run(job);
    }

    fn has_run(&self, job: usize) {
        let is_awaited = |other: &Job| match *other {
            Job::WaitsFor(awaited) | Job::Wakes(awaited) | Job::UsesItsSlice(awaited, Step::Long) => awaited == job,
            _ => false,
        };
        if self.jobs.iter().any(is_awaited) {
            self.run[job].raise();
        }
        self.done();
    }

    /// Mirrors `ThreadContext::run`.
    fn work(&self, me: usize) {
        loop {
            self.be_fair(me);
            let Some(job) = self.take_near(me).or_else(|| self.search(me)) else { return };
            self.run_slice(me, job);
        }
    }

    /// Puts a thread that has not searched to sleep. `timers` tells whether timers are pending. Returns whether the
    /// thread becomes the poller.
    pub(super) fn begin_sleep(&self, me: usize, timers: bool) -> bool {
        self.idle.begin_sleep(me, false, timers, KeepsNothing::without_tokens()) == Ok(true)
    }

    /// Mirrors `ThreadContext::run` for a thread that is asleep.
    pub(super) fn wake_up(&self, me: usize, poller: bool) {
        self.rest(me, poller);
        if let Some(job) = self.search_on(me, true) {
            self.run_slice(me, job);
            self.work(me);
        }
    }

    fn take_near(&self, me: usize) -> Option<usize> {
        self.take_next(me).or_else(|| self.take_own(me)).or_else(|| self.take_global(me))
    }

    fn take_own(&self, me: usize) -> Option<usize> {
        if fault::is(OWN_WORK_LEFT) { None } else { self.deques[me].pop() }
    }

    /// Mirrors `ThreadContext::take_global`: takes one job, and moves another to the thread's own deque.
    fn take_global(&self, me: usize) -> Option<usize> {
        if fault::is(USED_SLICE_LEFT) && me == 0 || self.idle.are_too_many_awake() {
            return None;
        }
        let first = self.global.pop()?;
        if let Some(second) = self.global.pop() {
            self.deques[me].push(second);
            reach("moved a batch");
            if !fault::is(BATCH_UNANNOUNCED) {
                self.announce();
            }
        }
        Some(first)
    }

    fn search(&self, me: usize) -> Option<usize> {
        let searching = self.idle.start_searching();
        self.search_on(me, searching)
    }

    fn search_on(&self, me: usize, mut searching: bool) -> Option<usize> {
        loop {
            if searching && let Some(job) = self.look_everywhere(me) {
                if self.idle.stop_searching()
                    && !fault::is(NO_CHECK_AFTER_FIND)
                    && (self.has_work(me) || self.has_unkept_timers())
                {
                    self.announce();
                }
                return Some(job);
            }
            if self.stopped.load(Ordering::Acquire) {
                if searching {
                    self.idle.stop_searching();
                }
                return None;
            }
            if self.timer.load(Ordering::SeqCst) {
                if searching && self.idle.stop_searching() && self.has_work(me) {
                    self.announce();
                }
                self.keep_time(me);
                if !fault::is(FIRED_AND_LEFT)
                    && let Some(job) = self.take_near(me)
                {
                    if self.has_work(me) || self.has_unkept_timers() {
                        self.announce();
                    }
                    return Some(job);
                }
                searching = self.idle.start_searching();
                continue;
            }
            self.sleep(me, searching);
            searching = true;
        }
    }

    /// Mirrors `ThreadContext::keep_time`: fires due timers. Meanwhile the thread does not count as searching.
    fn keep_time(&self, me: usize) {
        if self.timer.swap(false, Ordering::AcqRel) {
            reach("fired a timer");
            self.push_next(me, self.jobs.len());
        }
    }

    /// Mirrors one round of `ThreadContext::search_awake`.
    fn look_everywhere(&self, me: usize) -> Option<usize> {
        if self.idle.are_too_many_awake() {
            reach("took from its own queues only");
            return self.take_next(me).or_else(|| self.take_own(me));
        }
        self.take_near(me).or_else(|| self.deques[1 - me].pop().inspect(|_| reach("stole")))
    }

    /// Mirrors `ThreadContext::sleep`.
    fn sleep(&self, me: usize, searched: bool) {
        let timers = self.timer.load(Ordering::SeqCst);
        let Ok(poller) = self.idle.begin_sleep(me, searched, timers, KeepsNothing::without_tokens()) else {
            unreachable!("no thread waits for a permit")
        };
        self.rest(me, poller);
    }

    /// Mirrors the remainder of `ThreadContext::sleep`, once the thread is on the sleepers' list.
    fn rest(&self, me: usize, poller: bool) {
        struct Asleep<'a>(&'a Unseen);
        impl Drop for Asleep<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Relaxed);
            }
        }
        self.asleep[me].store(true, Ordering::Relaxed);
        let _asleep = Asleep(&self.asleep[me]);
        let idle = &self.idle;
        let looks = !fault::is(NO_CHECK_AFTER_ENTERING_THE_LIST);
        let keeps_timers = !fault::is(NO_CHECK_AT_TIMERS);
        loop {
            match idle.look(me, poller) {
                RestOutcome::Up(permit, _) => {
                    self.see_to_watch(me);
                    return assert_eq!(permit, me, "no thread takes its permit");
                }
                RestOutcome::Ended => return,
                RestOutcome::Asleep(_) => {}
                RestOutcome::Spare(_) => unreachable!("no thread takes its permit"),
            }
            let pending = self.timer.load(Ordering::SeqCst);
            let unkept = keeps_timers && !poller && pending && !idle.has_poller();
            let due = poller && pending;
            let looks = looks && !(self.habits.limited && fault::is(NO_LOOK_WHILE_LIMITED));
            let work = looks && idle.wakes_for_work() && self.has_work(me);
            if unkept || due || work {
                assert!(idle.end_sleep(me), "no thread takes its permit");
                continue;
            }
            reach("parked");
            self.parked[me].wait();
        }
    }

    /// Mirrors `Scheduler::look_on`, without its clock. Each round does all that a tick may do, and the watchdog rests
    /// as soon as all permits are idle. It also plays the thread to which the watchdog would give a stuck thread's
    /// permit.
    pub(super) fn look_on(&self) {
        let mut places = Vec::new();
        while !self.stopped.load(Ordering::Acquire) {
            let counts = self.idle.sample(&mut places);
            // Mirrors `Scheduler::limit_awake`, for long steps.
            if !fault::is(LIMITED_FOR_EVER) {
                self.idle.limit_awake(self.threads);
            }
            let has_work = !self.global.is_empty() || self.deques.iter().any(|deque| !deque.is_empty());
            if has_work && counts.sleeping > 0 && !fault::is(NO_SECOND_ANNOUNCEMENT) {
                self.announce();
            }
            (0..self.threads).for_each(|thread| self.move_run_next(thread));
            if counts.idle == 0 && self.habits.takes_over {
                self.run_what_waits();
            }
            if !counts.all_idle || !self.rest_watchdog() {
                thread::yield_now();
            }
        }
    }

    /// Runs one job, in place of the thread that would take over the permit of a stuck one.
    fn run_what_waits(&self) {
        let job = self.global.pop().or_else(|| self.deques.iter().find_map(Queue::pop));
        if let Some(job) = job {
            reach("took over");
            assert!(matches!(self.job(job), Job::Short), "any other job would get stuck");
            self.has_run(job);
        } else if self.timer.load(Ordering::SeqCst) && self.timer.swap(false, Ordering::AcqRel) {
            reach("took over");
            self.has_run(self.jobs.len());
        }
    }

    /// Performs watchdog:R1 and R2. Returns whether the watchdog has rested.
    pub(super) fn rest_watchdog(&self) -> bool {
        let rests = self.idle.rest_watchdog();
        if rests {
            reach("the watchdog rested");
            while self.idle.does_watchdog_rest() && !self.stopped.load(Ordering::Acquire) {
                self.watchdog.wait();
            }
            let _rested = self.idle.end_watchdog_rest();
        }
        rests
    }

    /// Mirrors `Scheduler::move_local`.
    pub(super) fn move_run_next(&self, thread: usize) {
        // Whichever thread holds the permit, the job goes to the global queue.
        let change = || match self.take_next(thread) {
            Some(job) => {
                self.global.push(job);
                true
            }
            None => false,
        };
        let moved = if fault::is(MOVED_WITHOUT_LOCK) { change() } else { self.idle.with_permits(|_| change()) };
        if moved {
            reach("moved what was to run next");
            self.announce();
        }
    }

    /// Mirrors `Scheduler::at_rest`.
    pub(super) fn is_at_rest(&self) -> bool {
        let Some(rises) = self.idle.all_asleep() else { return false };
        fence(Ordering::SeqCst);
        let queued = !self.global.is_empty()
            || self.deques.iter().any(|deque| !deque.is_empty())
            || self.next.iter().any(|next| next.load(Ordering::Relaxed) != 0);
        !queued && self.idle.all_asleep() == Some(rises)
    }
}

/// The state in which the threads of a model start.
#[derive(Clone, Copy)]
pub(super) enum Begin {
    /// All look for work.
    Awake,
    /// The first runs job 0, and the others look for work.
    AtWork,
    /// All are on the sleepers' list, but have not checked the queues again yet.
    Asleep,
    /// The first is asleep as the poller, for a timer that has since been cancelled. The others look for work.
    WasPoller,
}

/// Runs the threads while the main thread runs `outside`.
pub(super) fn model(world: &'static World, begin: Begin, outside: impl FnOnce()) {
    let sleeping = |me| match begin {
        Begin::Asleep => Some(world.begin_sleep(me, false)),
        Begin::WasPoller if me == 0 => {
            assert!(world.begin_sleep(me, true), "no thread is the poller");
            Some(true)
        }
        _ => None,
    };
    let pollers: Vec<_> = (0..world.threads).map(sleeping).collect();
    let threads: Vec<_> = (0..world.threads)
        .map(|me| {
            let poller = pollers[me];
            thread::spawn(move || {
                match (begin, poller) {
                    (Begin::AtWork, _) if me == 0 => world.run_slice(me, 0),
                    (_, Some(poller)) => return world.wake_up(me, poller),
                    _ => {}
                }
                world.work(me);
            })
        })
        .collect();
    outside();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(world.left.load(Ordering::Relaxed), 0);
}
