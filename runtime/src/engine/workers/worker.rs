//! The record of a thread that runs the steps of processes while it holds a permit.
//!
//! It contains what other threads may access: the tokens that the thread keeps to itself (`thread_cache/tokens`), the
//! end of its deque from which others steal, and the process that it runs. The thread's own state is in
//! `context/thread`.
//!
//! # The deque
//!
//! The deque is `crossbeam-deque`'s Chase-Lev deque, which is LIFO for its owner. Thieves take up to half of it, oldest
//! first: `steal_batch_with_limit_and_pop` takes the items of such a deque *one by one*, with a compare-and-swap and a
//! fence for each, and gives up where it meets another thief or the owner. So each item is taken once whatever the
//! owner does, and half of a long deque costs more than one operation. (Taking half with one compare-and-swap from a
//! deque whose owner pops without one would run items twice: to avoid that, the owner of the FIFO flavour pays for a
//! compare-and-swap of its own.) The plain `steal_batch_and_pop` never takes more than 32.
//!
//! Unlike Go's local queue, which holds 256 and spills half to the global queue, the deque is unbounded: a thread that
//! wakes 100,000 processes pays amortized growth instead of the cost of a shared queue, and thieves balance the load.
//! The length is bounded by the number of processes, since each is queued at most once.
//!
//! A FIFO deque was measured on the prototype of this design. It was three times slower where many processes send to
//! random others (80 ns instead of 26), since thieves then take the processes that the owner needs next; in all other
//! measurements it was equally fast.

use super::running::RunningProcess;
use crate::engine::watchdog::detector::StepId;
use crate::env::clock::Moment;
use crate::mailbox::lanes::Lanes;
use crate::observe::counters::Counters;
use crate::process::slice::TimeSlice;
use crate::slots::{Slot, Token};
use crate::sync::{
    AtomicBool, AtomicU64, CachePadded, Deque, Mutex, OnceLock, Ordering, Stealer, ThreadHandle, current_thread, lock,
    unpark,
};
use crate::thread_cache::lock::{LOST, NOTIFIED, UNWATCHED};
use crate::thread_cache::tokens::LocalTokens;
use crate::util::block_on::{RestWatcher, Waiter, be_seen_as};
use crate::util::defer::defer;
use std::ptr;
use std::task::Waker;

/// Another thread waits for a permit, or the host stops: the thread must check between two steps.
pub(crate) const CALLED: u16 = 1;
/// A tick has passed during the time slice.
const TICK: u16 = 4;
/// The next time slice is one message long, and timed. The bit stays set until the thread has found a process for it.
pub(crate) const TIMED: u16 = 32;

/// The host is being recorded, or was being recorded when the thread last checked: see `recorder`.
pub(crate) const RECORDED: u16 = 16;

const ALL: u16 = CALLED | LOST | TICK | UNWATCHED | RECORDED | TIMED | NOTIFIED;
const _: () = assert!(ALL.count_ones() == 7, "each has a bit of its own");

/// The value of `begun` while no beginning is noted.
const NOT_NOTED: u64 = u64::MAX;

pub(crate) struct Worker {
    /// The tokens that the thread keeps to itself: that of the process to run next, which the most recently run one has
    /// woken, and those of cached processes. Also contains the attention word. The thread checks this word between two
    /// steps, for requests of `handoff` ([`CALLED`], [`LOST`]) and the clock ([`TICK`]), and when it queues something
    /// ([`LOST`], [`UNWATCHED`]).
    pub(crate) local: LocalTokens,
    /// The process that the thread runs, even while that process blocks.
    pub(crate) running: RunningProcess,
    /// What is left of its time slice, and what it is doing.
    pub(crate) slice: TimeSlice,
    /// Lanes that belong to no process and stay empty: the input before the first step.
    pub(crate) nowhere: Lanes,
    /// The time at which the time slice of an unwatched thread began, in nanoseconds.
    begun: AtomicU64,
    /// The value of [`done`](Self::done) when that time slice began.
    begun_after: AtomicU64,
    /// Whether the thread is listed among those with work left behind in their deques.
    pub(crate) is_left: AtomicBool,
    /// The most recent sample of the recorder that the thread has seen; zero if that sample is over.
    pub(crate) recorded_in: AtomicU64,
    /// Number of [visits](Self::visit) begun plus number ended: odd during a visit. Written only by the thread itself.
    visits: AtomicU64,
    waits_in_reactor: AtomicBool,
    /// Whether the host has had a thread with this record.
    has_run: AtomicBool,
    pub(crate) stealer: Stealer<Token>,
    cold: Mutex<Cold>,
    /// The thread, as seen by other threads while it waits on its stack.
    waiter: OnceLock<Waiter>,
    /// The counters of the thread, which only the thread itself writes, with or without a permit.
    pub(crate) counters: CachePadded<Counters>,
}

struct Cold {
    handle: Option<ThreadHandle>,
    /// Wakes the thread while it is parked in a reactor, or whenever it is driven by others.
    waker: Option<Waker>,
    /// Whether the thread has been unparked since it was last parked in a reactor.
    unparked: bool,
    /// The owner's end of the deque, while the record has no thread.
    deque: Option<Deque<Token>>,
}

impl Worker {
    pub(crate) fn new() -> Self {
        let deque = Deque::new_lifo();
        Self {
            local: LocalTokens::none(),
            running: RunningProcess::nothing(),
            slice: TimeSlice::new(),
            nowhere: Lanes::unused(),
            begun: AtomicU64::new(NOT_NOTED),
            begun_after: AtomicU64::new(0),
            is_left: AtomicBool::new(false),
            recorded_in: AtomicU64::new(0),
            visits: AtomicU64::new(0),
            waits_in_reactor: AtomicBool::new(false),
            has_run: AtomicBool::new(false),
            stealer: deque.stealer(),
            cold: Mutex::new(Cold { handle: None, waker: None, unparked: false, deque: Some(deque) }),
            waiter: OnceLock::new(),
            counters: CachePadded::new(Counters::default()),
        }
    }

    /// Resets flags and counts for the next host. The record has no thread.
    pub(crate) fn renew(&self) {
        self.local.lock.acknowledge(ALL, Ordering::SeqCst);
        self.begun.store(NOT_NOTED, Ordering::Relaxed);
        self.is_left.store(false, Ordering::SeqCst);
        self.has_run.store(false, Ordering::Relaxed);
        self.counters.reset();
    }

    #[inline]
    pub(crate) fn running(&self) -> Option<&'static Slot> {
        self.running.slot()
    }

    /// Returns the step or the visit that the thread is in.
    pub(crate) fn step(&self) -> Option<StepId> {
        self.step_of_process().or_else(|| self.is_visiting().then(|| self.between_steps()))
    }

    /// Returns the step of a process that the thread is in.
    pub(crate) fn step_of_process(&self) -> Option<StepId> {
        let steps = self.done();
        self.running().map(|slot| StepId { slot: ptr::from_ref(slot).addr(), steps })
    }

    /// Returns the step that the thread is in, or other user code: a visit, or a wait in the reactor, where tasks run
    /// although the thread counts as asleep.
    pub(crate) fn user_code(&self) -> Option<StepId> {
        let waits = || self.waits_in_reactor.load(Ordering::Relaxed).then(|| self.between_steps());
        self.step().or_else(waits)
    }

    fn between_steps(&self) -> StepId {
        StepId { slot: ptr::from_ref(self).addr(), steps: self.done() }
    }

    /// Returns a number that grows with each step and each finished visit.
    fn done(&self) -> u64 {
        self.counters.steps.get() + (self.visits.load(Ordering::Relaxed) & !1)
    }

    /// Returns the flags that the thread checks between two steps and when it queues something, such as [`CALLED`] and
    /// [`LOST`].
    #[inline(always)]
    pub(crate) fn attention(&self) -> u16 {
        self.local.lock.attention()
    }

    #[inline(always)]
    pub(crate) fn is_called(&self) -> bool {
        self.attention() & (CALLED | LOST) != 0
    }

    /// Returns whether the thread runs user code outside of a step. With a permit, that is a task of the reactor or a
    /// timer's action. On the thread of a pinned process, it is the process's start, or the clean-up after a failed
    /// start.
    pub(crate) fn is_visiting(&self) -> bool {
        self.visits.load(Ordering::Relaxed) % 2 == 1
    }

    /// Runs user code outside of a step. A nested visit is part of the outer one.
    pub(crate) fn visit<R>(&self, body: impl FnOnce() -> R) -> R {
        let before = self.visits.load(Ordering::Relaxed);
        if before % 2 == 1 {
            return body();
        }
        self.visits.store(before + 1, Ordering::Relaxed);
        let _over = defer(|| self.visits.store(before + 2, Ordering::Relaxed));
        body()
    }

    /// Runs `wait`, in which the thread waits in the reactor and runs tasks that are ready.
    pub(crate) fn wait_in_reactor(&self, wait: impl FnOnce()) {
        self.waits_in_reactor.store(true, Ordering::Relaxed);
        let _over = defer(|| self.waits_in_reactor.store(false, Ordering::Relaxed));
        wait();
    }

    /// Marks a tick during the time slice. Called by the watchdog.
    pub(crate) fn tick(&self) {
        self.slice.tick();
        self.local.lock.call_attention(TICK, Ordering::Relaxed);
    }

    /// Returns whether a tick has passed since the last call.
    pub(crate) fn take_tick(&self) -> bool {
        self.attention() & TICK != 0 && self.local.lock.acknowledge(TICK, Ordering::Relaxed) != 0
    }

    /// Returns whether something has been sent to a process in the table of the cache since the last call. If so,
    /// everything sent before the notification is now visible to the thread.
    pub(crate) fn take_notified(&self) -> bool {
        self.attention() & NOTIFIED != 0 && self.local.lock.acknowledge(NOTIFIED, Ordering::SeqCst) != 0
    }

    /// Asks the thread to time a message. The request is lost if the thread is called in the meantime.
    pub(crate) fn ask_for_time(&self) {
        self.local.lock.call_attention(TIMED, Ordering::Relaxed);
    }

    pub(crate) fn is_asked_for_time(&self) -> bool {
        self.attention() & TIMED != 0
    }

    /// Returns whether the thread was asked to time a message since the last call.
    pub(crate) fn take_request_for_time(&self) -> bool {
        self.attention() & TIMED != 0 && self.local.lock.acknowledge(TIMED, Ordering::Relaxed) != 0
    }

    /// Clears the call and other requests, since the thread is about to check for all of them.
    pub(crate) fn acknowledge(&self) {
        self.local.lock.acknowledge(ALL & !(UNWATCHED | RECORDED), Ordering::SeqCst);
    }

    /// Returns whether any flag is set besides those for the recording and for the watchdog's rest.
    pub(crate) fn has_more_to_see(&self) -> bool {
        self.attention() & !(RECORDED | UNWATCHED) != 0
    }

    #[inline(always)]
    pub(crate) fn is_recorded(&self) -> bool {
        self.attention() & RECORDED != 0
    }

    /// Records that the thread has seen the end of the recording.
    pub(crate) fn is_recorded_no_more(&self) {
        self.local.lock.acknowledge(RECORDED, Ordering::SeqCst);
    }

    /// Performs watchdog:R3 while the watchdog rests. Called by the thread when it has got a permit, and between time
    /// slices.
    #[inline]
    pub(crate) fn begins_unwatched(&self) {
        self.local.lock.call_attention(UNWATCHED, Ordering::Relaxed);
        self.begun_after.store(self.done(), Ordering::Relaxed);
        self.begun.store(Moment::now_by(None).nanoseconds(), Ordering::Relaxed);
    }

    pub(crate) fn begins_watched(&self) {
        if self.is_unwatched() {
            self.begun.store(NOT_NOTED, Ordering::Relaxed);
            self.local.lock.acknowledge(UNWATCHED, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn is_unwatched(&self) -> bool {
        self.attention() & UNWATCHED != 0
    }

    /// Returns the time at which the step or visit that follows `steps` others began, if the thread has noted it.
    /// Called by the watchdog.
    pub(crate) fn begun_unwatched(&self, steps: u64) -> Option<Moment> {
        let begun = Some(self.begun.load(Ordering::Relaxed)).filter(|&begun| begun != NOT_NOTED);
        begun.filter(|_| self.begun_after.load(Ordering::Relaxed) == steps).map(Moment::of_nanoseconds)
    }

    /// Sets flags that the thread checks at the end of its step, or at once if it sleeps and is unparked.
    pub(crate) fn call(&self, why: u16) {
        self.local.lock.call_attention(why, Ordering::SeqCst);
    }

    /// Gives this record to the calling thread. Returns the owner's end of the deque.
    pub(crate) fn occupy(&self, watch: &'static dyn RestWatcher) -> Option<Deque<Token>> {
        self.waiter.get_or_init(|| Waiter::new(watch));
        self.has_run.store(true, Ordering::Relaxed);
        let mut cold = lock(&self.cold);
        cold.handle = Some(current_thread());
        cold.deque.take()
    }

    pub(crate) fn has_run(&self) -> bool {
        self.has_run.load(Ordering::Relaxed)
    }

    /// Frees the record of the calling thread.
    pub(crate) fn vacate(&self, deque: Deque<Token>) {
        let mut cold = lock(&self.cold);
        (cold.handle, cold.waker, cold.deque) = (None, None, Some(deque));
    }

    /// Makes `waker` the one that is woken to unpark the thread, until the record is free.
    pub(crate) fn is_driven_by(&self, waker: Waker) {
        lock(&self.cold).waker = Some(waker);
    }

    /// Makes the calling thread appear as this one to others. Returns what it appeared as before.
    pub(crate) fn be_seen_here(&'static self) -> Option<&'static Waiter> {
        be_seen_as(self.waiter.get())
    }

    /// Returns whether the thread waits on its stack, and has not been woken.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.waiter.get().is_some_and(|waiter| waiter.is_at_rest())
    }

    /// Returns how many times the thread has rested on its stack.
    pub(crate) fn rests(&self) -> u64 {
        self.waiter.get().map_or(0, |waiter| waiter.rests())
    }

    pub(crate) fn unpark(&self) {
        let mut cold = lock(&self.cold);
        cold.unparked = true;
        match (&cold.waker, &cold.handle) {
            (Some(waker), _) => waker.wake_by_ref(),
            (None, Some(handle)) => unpark(handle),
            (None, None) => {}
        }
    }

    /// Sets the waker for a rest in a reactor. Returns whether the thread has been unparked since the last such rest.
    pub(crate) fn rests_with(&self, waker: &Waker) -> bool {
        let mut cold = lock(&self.cold);
        if !cold.waker.as_ref().is_some_and(|own| own.will_wake(waker)) {
            cold.waker = Some(waker.clone());
        }
        cold.unparked
    }

    pub(crate) fn rests_no_more(&self) {
        let mut cold = lock(&self.cold);
        (cold.waker, cold.unparked) = (None, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a nested visit that ends the outer one, so that the watchdog sees no step. Also catches successive
    /// visits that look like a single one, so that a chain of short visits is reported as a stall.
    #[test]
    fn a_visit_is_one_step_with_those_inside_of_it_and_the_next_is_another() {
        let worker = Worker::new();
        assert_eq!(worker.step(), None);
        let visit = || {
            worker.visit(|| {
                let step = worker.step();
                assert!(step.is_some());
                worker.visit(|| assert_eq!(worker.step(), step));
                assert_eq!(worker.step(), step, "it goes on");
                step
            })
        };
        let first = visit();
        assert_eq!(worker.step(), None);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| worker.visit(|| panic!("as it may"))));
        assert!(panicked.is_err() && worker.step().is_none());
        assert_ne!(visit(), first);
    }

    /// Catches: a visit, or a step after a visit, that is reported with the start time of an earlier one.
    #[test]
    fn the_time_that_is_noted_is_that_of_what_comes_first() {
        let worker = Worker::new();
        worker.begins_unwatched();
        let begun = || worker.visit(|| worker.begun_unwatched(worker.step().expect("it is in a visit").steps));
        assert!(begun().is_some());
        assert!(begun().is_none());
    }
}
