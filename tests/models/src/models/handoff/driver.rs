//! Threads that hand off their permits: the steps of `block_in_place.rs`, `spare.rs` and `find.rs`, each named after
//! its production function.

use super::super::sleep::driver::{Flag, Queue};
use crate::check::{keep, reach};
use crate::engine::permits::handoff::{RestOutcome, Resumption};
use crate::engine::permits::holders::{HandedOff, Need};
use crate::engine::permits::sleep::{BecameSpare, Idle};
use crate::fault::{self, Fault};
use crate::sync::{AtomicBool, AtomicU8, AtomicUsize, Ordering, OwnedCell};
use crate::thread_cache::tokens::KeepsNothing;
use std::cell::Cell;

/// handoff:H0 is omitted: a thread that blocks keeps the job in its run-next slot.
pub(super) const KEEPS_RUN_NEXT: Fault = Fault::Driver(1);
/// sleep:S3: a thread that has lost its permit while going to sleep does not announce the work that it sees.
pub(super) const LOSES_UNANNOUNCED: Fault = Fault::Driver(3);
/// handoff:M3 is omitted.
pub(super) const RUN_NEXT_IS_LEFT: Fault = Fault::Driver(4);
/// handoff:M2 is omitted.
pub(super) const LOSS_NOT_SIGNALLED: Fault = Fault::Driver(5);
/// A thread that becomes spare, or that comes back, does not wake the steps in the blocking queue.
pub(super) const QUEUE_IS_FORGOTTEN: Fault = Fault::Driver(6);
/// handoff:B1: the returning thread continues with its previous permit.
pub(super) const KEEPS_ITS_OLD_PERMIT: Fault = Fault::Driver(7);
/// handoff:B2: no thread is called.
pub(super) const CALLS_NO_THREAD: Fault = Fault::Driver(8);

const CALLED: u8 = 1;
const LOST: u8 = 2;

const THREADS: usize = 3;
const JOBS: usize = 4;

/// The behaviour of a job.
#[derive(Clone, Copy)]
pub(super) enum Job {
    /// Does nothing.
    Short,
    /// Waits until the job with the given number has run.
    WaitsFor(usize),
    /// Puts the first job into its thread's run-next slot, and blocks until the second job has run.
    Blocks(usize, usize),
    /// Marks the first job as run, and then behaves like `Blocks` with the second job for both.
    Raises(usize, usize),
    /// Behaves like `Blocks` in async code, with the first job for both: its thread does not wait for a permit. The
    /// second job is the next step of the process.
    Awaits(usize, usize),
    /// Puts the job into its thread's run-next slot and waits until that job has run. If `late`, the permit has been
    /// taken over before the job is put there. Otherwise it may be taken over at any time.
    Hogs { job: usize, late: bool },
    /// Runs repeatedly until the job with the given number has run.
    Restless(usize),
}

/// The private state of a thread.
pub(super) struct Me {
    number: usize,
    permit: Cell<usize>,
    behind: Cell<Option<usize>>,
}

impl Me {
    pub(super) fn new(number: usize, permit: usize) -> Self {
        Self { number, permit: Cell::new(permit), behind: Cell::new(None) }
    }
}

struct Thread {
    next: AtomicUsize,
    deque: Queue,
    attention: AtomicU8,
    parked: Flag,
}

impl Thread {
    fn new() -> Self {
        let (next, attention) = (AtomicUsize::new(0), AtomicU8::new(0));
        Self { next, deque: Queue::new(), attention, parked: Flag::new() }
    }
}

pub(super) struct World {
    pub(super) idle: Idle,
    threads: [Thread; THREADS],
    /// A cell for each permit, which only the thread with the permit accesses. If two threads had the same permit, loom
    /// would report a race.
    permits: [OwnedCell<u32>; 2],
    global: Queue,
    jobs: &'static [Job],
    run: [Flag; JOBS],
    left: AtomicUsize,
    stopped: AtomicBool,
    /// A flag that is raised once the run-next slot of the thread whose permit will be taken over is full.
    pub(super) pushed: Flag,
    /// A flag that is raised after the permit has been taken over.
    pub(super) taken_over: Flag,
}

impl World {
    /// Creates a host with `permits` permits, each with its own thread, and `spare` spare threads. No more threads may
    /// start.
    pub(super) fn new(permits: usize, spare: usize, jobs: &'static [Job]) -> &'static Self {
        let idle = Idle::new(permits, permits + spare);
        (0..permits).for_each(|permit| _ = idle.begin(Some(permit)));
        let spare: Vec<_> = (0..spare).filter_map(|_| idle.reserve(Need::Blocking)).collect();
        spare.into_iter().for_each(|thread| idle.started(thread));
        keep(Self {
            idle,
            threads: [Thread::new(), Thread::new(), Thread::new()],
            permits: [OwnedCell::new(0), OwnedCell::new(0)],
            global: Queue::new(),
            jobs,
            run: [Flag::new(), Flag::new(), Flag::new(), Flag::new()],
            left: AtomicUsize::new(jobs.len()),
            stopped: AtomicBool::new(false),
            pushed: Flag::new(),
            taken_over: Flag::new(),
        })
    }

    pub(super) fn rest_is_done(&self) {
        assert_eq!(self.left.load(Ordering::Relaxed), 0, "a job was left");
        let threads = self.idle.with_permits(|permits| permits.counts());
        assert_eq!((threads.blocked, threads.waiting), (0, 0));
    }

    /// Mirrors `Scheduler::announce`.
    fn announce(&self) {
        if let Some(thread) = self.idle.announce() {
            reach("woke a sleeper");
            self.threads[thread].parked.raise();
        }
    }

    /// Mirrors `Scheduler::push_global`.
    pub(super) fn push_global(&self, job: usize) {
        self.global.push(job);
        self.announce();
    }

    /// Mirrors `Scheduler::has_work`.
    fn has_work(&self) -> bool {
        !self.global.is_empty() || self.threads.iter().any(|thread| !thread.deque.is_empty())
    }

    fn unpark(&self, thread: usize) {
        self.threads[thread].parked.raise();
    }

    fn call(&self, thread: usize, why: u8) {
        self.threads[thread].attention.fetch_or(why, Ordering::SeqCst);
    }

    fn attention(&self, me: &Me) -> u8 {
        self.threads[me.number].attention.load(Ordering::Relaxed)
    }

    /// Mirrors `ThreadContext::take_up`, followed by a use of the permit.
    fn uses(&self, me: &Me) {
        // SAFETY: only the thread that has the permit accesses its cell, and loom checks this.
        self.permits[me.permit.get()].with_mut(|uses| unsafe { *uses += 1 });
    }

    /// Mirrors `Scheduler::stop_threads`.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        for thread in self.idle.stop() {
            self.call(thread, CALLED);
            self.unpark(thread);
        }
    }

    fn done(&self, job: usize) {
        self.run[job].raise();
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.stop();
        }
    }

    /// Mirrors `ThreadContext::push_next`.
    fn push_next(&self, me: &Me, job: usize) {
        let own = &self.threads[me.number];
        assert_eq!(own.next.load(Ordering::Relaxed), 0, "no model wakes two");
        own.next.store(job + 1, Ordering::Release);
        if self.attention(me) & LOST != 0
            && let Some(job) = self.take_next(me.number)
        {
            reach("pushed without a permit");
            self.push_global(job);
        }
    }

    /// Mirrors `LocalTokens::take_next`, without its lock, which has its own model. (An exchange on an empty slot would
    /// make loom lose a value that is stored at the same time, since loom does not know that nothing can come between
    /// the read and the write of an exchange.)
    fn take_next(&self, thread: usize) -> Option<usize> {
        let next = &self.threads[thread].next;
        if next.load(Ordering::Relaxed) == 0 { None } else { next.swap(0, Ordering::AcqRel).checked_sub(1) }
    }

    /// Mirrors `ThreadContext::flush`.
    fn flush(&self, me: &Me) {
        match self.take_next(me.number) {
            None => {}
            Some(job) if self.attention(me) & LOST != 0 => self.push_global(job),
            Some(job) => self.threads[me.number].deque.push(job),
        }
    }

    /// Mirrors `ThreadContext::run_slice`: runs one job.
    pub(super) fn run_slice(&self, me: &Me, job: usize) {
        match self.jobs[job] {
            Job::Short => self.uses(me),
            Job::WaitsFor(other) => {
                self.uses(me);
                self.run[other].wait();
                self.uses(me);
            }
            Job::Blocks(next, until) => {
                self.uses(me);
                self.block(me, next, until, false);
            }
            Job::Raises(told, next) => {
                self.uses(me);
                self.run[told].raise();
                self.block(me, next, next, false);
            }
            Job::Awaits(next, rest) => {
                self.uses(me);
                self.block(me, next, next, true);
                // The step ends. With a permit, the next step follows at once; without one, it is queued.
                if self.attention(me) == 0 {
                    self.uses(me);
                    self.done(rest);
                } else {
                    self.push_global(rest);
                }
            }
            // This step does not use the permit, because the thread that has taken it over uses it at the same time.
            Job::Hogs { job, late } => {
                if late {
                    self.taken_over.wait();
                }
                self.push_next(me, job);
                self.pushed.raise();
                self.run[job].wait();
            }
            Job::Restless(until) => {
                self.uses(me);
                if !self.run[until].is_raised() {
                    reach("ran again");
                    self.push_next(me, job);
                    return loom::thread::yield_now();
                }
            }
        }
        self.done(job);
    }

    fn block(&self, me: &Me, next: usize, until: usize, is_async: bool) {
        self.push_next(me, next);
        self.hand_off(me, Need::Blocking);
        self.run[until].wait();
        self.come_back(me, is_async);
    }

    /// Mirrors `ThreadContext::hand_off` and `ThreadContext::pass`.
    fn hand_off(&self, me: &Me, need: Need) {
        if !fault::is(KEEPS_RUN_NEXT) {
            self.flush(me);
        }
        match self.idle.hand_off(me.number, need, false, KeepsNothing::without_tokens()) {
            HandedOff::ToSpare(next) => {
                reach("handed off to a spare thread");
                self.unpark(next);
            }
            HandedOff::ToWaiting(next) => {
                reach("handed off to a thread that waited");
                self.unpark(next);
            }
            HandedOff::HadNone => reach("had none to hand off"),
            handed_off => unreachable!("{handed_off:?}: there is a thread"),
        }
    }

    /// Mirrors `ThreadContext::come_back`.
    pub(super) fn come_back(&self, me: &Me, is_async: bool) {
        self.threads[me.number].attention.store(0, Ordering::SeqCst);
        let back = self.idle.come_back(me.number, is_async);
        self.continue_with(me, back);
    }

    /// Mirrors the remainder of `ThreadContext::come_back`.
    pub(super) fn continue_with(&self, me: &Me, mut back: Resumption) {
        if fault::is(KEEPS_ITS_OLD_PERMIT) {
            return self.uses(me);
        }
        if let Resumption::Waits(others) = &back {
            if !fault::is(CALLS_NO_THREAD) {
                others.iter().for_each(|&other| self.call(other, CALLED));
            }
            back = loop {
                match self.idle.served(me.number) {
                    Some(back) => break back,
                    None => self.threads[me.number].parked.wait(),
                }
            };
            reach("waited in the queue");
            if self.idle.with_permits(|permits| permits.is_wanted()) {
                self.call(me.number, CALLED);
            }
        }
        match back {
            Resumption::With(permit, displaced) => {
                me.permit.set(permit);
                self.uses(me);
                if let Some(displaced) = displaced {
                    reach("displaced a sleeper");
                    self.unpark(displaced);
                }
                self.wake_blocked_steps();
            }
            Resumption::Detached | Resumption::Waits(_) => {
                reach("came back without a permit");
                self.call(me.number, LOST);
            }
        }
    }

    /// Ends a step that blocked in async code, after the blocking has ended.
    pub(super) fn leave_step(&self, me: &Me) {
        self.come_back(me, true);
        if let Some(BecameSpare(next)) = self.idle.yield_permit(me.number, KeepsNothing::without_tokens()) {
            self.pass_on(next);
        }
    }

    /// Mirrors `Scheduler::wake_blocked_steps`.
    fn wake_blocked_steps(&self) {
        if !fault::is(QUEUE_IS_FORGOTTEN) {
            self.idle.reserve_threads().into_iter().for_each(std::task::Waker::wake);
        }
    }

    /// Mirrors `Scheduler::take_over`.
    pub(super) fn take_over(&self, number: usize) {
        match self.idle.take_over(number, || true) {
            HandedOff::ToSpare(next) | HandedOff::ToWaiting(next) => {
                if !fault::is(LOSS_NOT_SIGNALLED) {
                    self.call(number, LOST);
                }
                crate::sync::fence(Ordering::SeqCst);
                if !fault::is(RUN_NEXT_IS_LEFT) {
                    self.surface(number);
                }
                reach("took over");
                self.unpark(next);
                self.announce();
            }
            handed_off => unreachable!("{handed_off:?}: it is in a step, and there is a spare thread"),
        }
    }

    /// Moves the job from the run-next slot of a thread in a long step to the global queue, as the watchdog does.
    pub(super) fn surface(&self, number: usize) {
        if let Some(job) = self.take_next(number) {
            reach("moved a run-next slot");
            self.push_global(job);
        }
    }

    /// Mirrors `ThreadContext::next`.
    pub(super) fn work(&self, me: &Me) {
        loop {
            let found = if self.attention(me) != 0 { self.next_when_called(me) } else { self.find(me) };
            let Some(job) = found else { return };
            self.run_slice(me, job);
        }
    }

    fn find(&self, me: &Me) -> Option<usize> {
        self.take_near(me).or_else(|| self.search(me, self.idle.start_searching()))
    }

    /// Mirrors `ThreadContext::next_when_called` and `ThreadContext::yield_permit`.
    fn next_when_called(&self, me: &Me) -> Option<usize> {
        self.threads[me.number].attention.store(0, Ordering::SeqCst);
        self.flush(me);
        let Some(BecameSpare(next)) = self.idle.yield_permit(me.number, KeepsNothing::without_tokens()) else {
            return self.find(me);
        };
        reach("was called away");
        self.pass_on(next);
        self.announce();
        if self.rest(me, false, false) { self.search(me, true) } else { None }
    }

    fn pass_on(&self, next: Option<usize>) {
        next.into_iter().for_each(|next| self.unpark(next));
        self.wake_blocked_steps();
    }

    /// Runs a thread that starts as a spare, as `ThreadContext::next_when_called` does for a new thread.
    pub(super) fn stand_by(&self, me: &Me) {
        if self.rest(me, false, false)
            && let Some(job) = self.search(me, true)
        {
            self.run_slice(me, job);
            self.work(me);
        }
    }

    /// Runs a thread that starts asleep.
    pub(super) fn wake_up(&self, me: &Me, poller: bool) {
        if self.rest(me, true, poller)
            && let Some(job) = self.search(me, true)
        {
            self.run_slice(me, job);
            self.work(me);
        }
    }

    fn take_near(&self, me: &Me) -> Option<usize> {
        self.take_next(me.number).or_else(|| self.threads[me.number].deque.pop()).or_else(|| self.global.pop())
    }

    /// Mirrors `ThreadContext::search`.
    fn search(&self, me: &Me, mut searching: bool) -> Option<usize> {
        loop {
            let over = self.stopped.load(Ordering::Acquire);
            let found = if searching && !over { self.look_everywhere(me) } else { None };
            let last = searching && (found.is_some() || over) && self.idle.stop_searching();
            if last && self.has_work() {
                self.announce();
            }
            if found.is_some() || over {
                return found;
            }
            if !self.sleep(me, searching) {
                return None;
            }
            searching = true;
        }
    }

    /// Mirrors one round of `ThreadContext::search_awake`.
    fn look_everywhere(&self, me: &Me) -> Option<usize> {
        let behind = me.behind.take().and_then(|behind| self.threads[behind].deque.pop());
        if behind.is_some() {
            reach("found what was left behind");
        }
        behind.or_else(|| self.take_near(me)).or_else(|| {
            let mut others = (0..THREADS).filter(|&other| other != me.number);
            others.find_map(|other| self.threads[other].deque.pop())
        })
    }

    /// Mirrors `ThreadContext::sleep`.
    fn sleep(&self, me: &Me, searched: bool) -> bool {
        self.threads[me.number].attention.store(0, Ordering::SeqCst);
        match self.idle.begin_sleep(me.number, searched, false, KeepsNothing::without_tokens()) {
            Ok(poller) => self.rest(me, true, poller),
            Err(BecameSpare(next)) => {
                if next.is_some() {
                    reach("gave its permit away instead of sleeping");
                }
                self.pass_on(next);
                self.rest(me, true, false)
            }
        }
    }

    /// Mirrors `ThreadContext::go_on_resting`, with the park that follows.
    fn rest(&self, me: &Me, is_asleep: bool, poller: bool) -> bool {
        let mut looks_again = is_asleep;
        loop {
            let asleep = match self.idle.look(me.number, poller) {
                RestOutcome::Up(permit, behind) => {
                    me.permit.set(permit);
                    me.behind.set(behind);
                    return true;
                }
                RestOutcome::Ended => return false,
                RestOutcome::Asleep(_) => true,
                RestOutcome::Spare(_) => false,
            };
            if std::mem::take(&mut looks_again) && self.look_again(me) {
                continue;
            }
            looks_again = asleep;
            self.threads[me.number].parked.wait();
        }
    }

    /// Mirrors `ThreadContext::look_again`.
    fn look_again(&self, me: &Me) -> bool {
        let work = self.has_work() && !self.idle.is_anyone_searching();
        if work && !self.idle.end_sleep(me.number) && !fault::is(LOSES_UNANNOUNCED) {
            reach("announced to others");
            self.announce();
        }
        work
    }
}
