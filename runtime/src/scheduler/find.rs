//! Where a thread finds its next process, and how it comes to rest.
//!
//! The order: the run-next slot, then the hot end of the own deque, the own worker's inject queue, the global queue (one,
//! and a batch of at most [`BATCH`] more into the own deque), and half of a random victim's deque, oldest first.
//!
//! Three exceptions keep anyone from waiting for ever:
//! * every [`FAIR`] steps one of the far ends comes first, in turn: global queue, own inject queue, cold end of the own
//!   deque. So a process in one of these waits for at most `3 * FAIR` steps of the worker for each one before it
//!   (and one that is in debt for as many turns more as it owes, see `step`);
//! * after [`STREAK`] steps in a row from the run-next slot the deque comes first;
//! * a process that has used its budget goes to the global queue, never back to a hot end (see `step`).
//!
//! A thread that finds nothing looks again: [`TIGHT`] times at once, then, while another thread is awake and might push
//! something, up to [`SPINS`] times with growing pauses, then it parks as `idle` says. Yielding the thread instead of
//! pausing was measured on the prototype: the kernel brings a yielding thread back late (a message into an idle system
//! took 9.5 µs against 4.3). Work that is found starts the count anew.

use super::local::Context;
use super::step::Desk;
use super::thread::Thread;
use crate::clock::Moment;
use crate::exit::Panic;
use crate::mailbox::pool;
use crate::sync::{Ordering, Steal, spin};
use crate::table::Token;

/// Every how many steps a far end comes first. Go visits its global queue every 61 steps; this visits three ends in turn
/// at about that distance each.
const FAIR: u32 = 128;

/// How many steps in a row may come from the run-next slot.
const STREAK: u32 = 64;

/// How many more processes one visit to the global queue brings.
const BATCH: usize = 16;

/// The most that one theft takes. Half of a deque, but each item costs the thief a fence: a bound on the pause.
const THEFT: usize = 256;

/// How many looks without a pause.
const TIGHT: u32 = 4;

/// How many looks with a growing pause before parking.
const SPINS: u32 = 12;

/// Every how many steps the clock is read and timers are looked at.
const CLOCK: u32 = 2;

impl Context {
    /// Runs processes until the host stops, or until somebody wants the context back.
    pub(crate) fn run(&self) {
        let mut desk = Desk::new();
        while let Err(panic) = crate::panics::contain(|| self.run_with(&mut desk)) {
            if let Err(panic) = self.panicked_anew(&mut desk, panic) {
                // All code of users is under guard; should a panic come from elsewhere all the same, it costs the process
                // that was running, not the worker.
                tracing::error!(%panic, process = ?self.pid(), "a panic escaped from a process's guard");
                // Whatever is on the desk belongs to that process.
                let _panic = crate::panics::contain(|| desk = Desk::new());
                self.thread.running.store(std::ptr::null_mut(), Ordering::Relaxed);
            }
        }
    }

    /// Sees to a panic, and to those of the steps that follow in the same turn.
    fn panicked_anew(&self, desk: &mut Desk, panic: Panic) -> Result<(), Panic> {
        let mut panic = panic;
        loop {
            match crate::panics::contain(|| self.panicked(desk, panic)) {
                Ok(seen_to) => return seen_to,
                Err(another) => panic = another,
            }
        }
    }

    fn run_with(&self, desk: &mut Desk) {
        while !self.seat.is_wanted() {
            let found = self.take_near().or_else(|| self.search());
            match found {
                Some(token) => self.turn(desk, token),
                None => return,
            }
        }
    }

    /// The next process from this thread's own queues, and the global one.
    #[inline]
    fn take_near(&self) -> Option<Token> {
        let spent = pool::spent();
        if spent.wrapping_sub(self.fair.get()) >= FAIR {
            self.fair.set(spent);
            if let Some(token) = self.be_fair() {
                return Some(token);
            }
        }
        let streak = self.streak.get();
        if streak < STREAK
            && let Some(token) = self.thread.take_run_next()
        {
            self.streak.set(streak + 1);
            return Some(token);
        }
        self.streak.set(0);
        self.deque
            .pop()
            .or_else(|| self.take_inject())
            .or_else(|| self.take_global())
            .or_else(|| self.thread.take_run_next())
    }

    /// What is done every [`FAIR`] steps.
    #[inline(never)]
    fn be_fair(&self) -> Option<Token> {
        let turn = self.turns.get().wrapping_add(1);
        self.turns.set(turn);
        if turn.is_multiple_of(CLOCK) {
            self.keep_time();
        }
        if !self.deque.is_empty() {
            // With the fence that pushes to the own deque leave out.
            self.host.announce();
        }
        let token = self.take_far(turn)?;
        self.worker.counters.fair.add(1);
        Some(token)
    }

    /// One of the ends that nearer ones could hide for ever.
    fn take_far(&self, turn: u32) -> Option<Token> {
        match turn % 3 {
            0 => self.host.global.pop(),
            1 => self.worker.inject.pop(),
            _ => match self.thread.stealer.steal() {
                Steal::Success(token) => Some(token),
                Steal::Empty | Steal::Retry => None,
            },
        }
    }

    fn take_inject(&self) -> Option<Token> {
        let token = self.worker.inject.pop()?;
        self.worker.counters.from_inject.add(1);
        Some(token)
    }

    /// One from the global queue, and a batch that goes to the own deque: newest first, so that its owner, who takes from
    /// the hot end, runs them in their order.
    fn take_global(&self) -> Option<Token> {
        let first = self.host.global.pop()?;
        let batch: smallvec::SmallVec<[Token; BATCH]> =
            std::iter::from_fn(|| self.host.global.pop()).take(BATCH).collect();
        self.worker.counters.from_global.add(1 + batch.len() as u64);
        if !batch.is_empty() {
            batch.into_iter().rev().for_each(|token| self.deque.push(token));
            self.host.announce();
        }
        Some(first)
    }

    /// Looks everywhere until there is something; `None` when the thread is to run no more processes.
    #[cold]
    fn search(&self) -> Option<Token> {
        let mut searching = self.host.idle.start_searching();
        loop {
            let over = self.seat.is_wanted() || self.host.is_stopped();
            let found = if searching && !over { self.search_awake() } else { None };
            let last = searching && (found.is_some() || over) && self.host.idle.stop_searching();
            if last && (self.host.has_work() || self.host.has_unkept_timers()) {
                self.host.announce();
            }
            if found.is_some() || over {
                return found;
            }
            self.sleep(searching);
            searching = true;
        }
    }

    fn search_awake(&self) -> Option<Token> {
        for round in 0..TIGHT + SPINS {
            if round >= TIGHT {
                if !self.host.idle.is_another_awake() || self.host.is_stopped() {
                    return None;
                }
                self.worker.counters.spins.add(1);
                (0..1_u32 << (round - TIGHT).min(7)).for_each(|_| spin());
            } else {
                self.worker.counters.polls.add(1);
            }
            self.keep_time_if_due();
            if let Some(token) = self.look_everywhere() {
                return Some(token);
            }
        }
        None
    }

    fn look_everywhere(&self) -> Option<Token> {
        self.thread
            .take_run_next()
            .or_else(|| self.deque.pop())
            .or_else(|| self.take_inject())
            .or_else(|| self.take_global())
            .or_else(|| self.steal())
    }

    /// Half of a random victim's deque, or one from its worker's inject queue.
    fn steal(&self) -> Option<Token> {
        let count = self.host.threads.len();
        let first = self.random.borrow_mut().below(count);
        let others = (first..count).chain(0..first).filter(|&other| other != self.index);
        for other in others {
            let found = self.steal_from(&self.host.threads[other]).or_else(|| {
                let worker = self.host.threads[other].worker.load(Ordering::Relaxed);
                self.host.workers.get(worker)?.inject.pop().inspect(|_| self.worker.counters.stolen.add(1))
            });
            if found.is_some() {
                self.worker.counters.steals.add(1);
                return found;
            }
        }
        // Queues of workers that no thread holds.
        let orphan = self.host.workers.iter().find_map(|worker| worker.inject.pop());
        orphan.inspect(|_| self.worker.counters.steals.add(1))
    }

    fn steal_from(&self, victim: &Thread) -> Option<Token> {
        loop {
            let before = self.deque.len();
            match victim.stealer.steal_batch_with_limit_and_pop(&self.deque, THEFT) {
                Steal::Success(token) => {
                    let moved = self.deque.len().saturating_sub(before);
                    self.worker.counters.stolen.add(1 + moved as u64);
                    if moved > 0 {
                        self.host.announce();
                    }
                    return Some(token);
                }
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }

    /// S1 to S4 of the sleep protocol. The thread counts as searching afterwards.
    fn sleep(&self, searched: bool) {
        let (host, me) = (self.host, self.index);
        let timers = host.next_timer() < Moment::NEVER;
        let lookout = host.idle.lie_down(me, searched, timers);
        self.worker.counters.parks.add(1);
        host.quiet.tell();
        let mut watched: Vec<u64> = Vec::new();
        loop {
            let unkept = !lookout && host.has_unkept_timers();
            let due = lookout && host.next_timer() <= Moment::now();
            // Work that somebody searches for is no reason to get up: whoever searches has to see to it (F3 or S3).
            let work = host.has_work() && !host.idle.is_anyone_searching();
            if unkept || due || work || host.is_stopped() || self.seat.is_wanted() {
                host.idle.get_up(me);
                return;
            }
            crate::sync::park(if lookout { self.patience() } else { None });
            crate::clock::forget_now();
            if host.idle.is_woken(me) {
                return;
            }
            if lookout && self.watch(&mut watched) {
                return;
            }
        }
    }

    /// How long the lookout may sleep.
    fn patience(&self) -> Option<std::time::Duration> {
        let watch = (!self.host.idle.sleep_deep(self.index)).then_some(super::idle::WATCH);
        let next = self.host.next_timer();
        let timers = (next < Moment::NEVER).then(|| next.since(Moment::now()));
        match (timers, watch) {
            (Some(timers), Some(watch)) => Some(timers.min(watch)),
            (one, other) => one.or(other),
        }
    }

    /// Gets up for a process that waits in the run-next slot of a thread whose worker has not come to a new step since the
    /// last look, and takes it over. Gives whether there was one; it is in this thread's own run-next slot then, unless
    /// somebody was faster.
    fn watch(&self, watched: &mut Vec<u64>) -> bool {
        let now: Vec<u64> = self.host.workers.iter().map(|worker| worker.counters.steps.get()).collect();
        let before = std::mem::replace(watched, now);
        if before.is_empty() {
            return false;
        }
        for thread in self.host.threads.iter() {
            let worker = thread.worker.load(Ordering::Relaxed);
            let stuck = before.get(worker).is_some_and(|&steps| steps == watched[worker]);
            if stuck && thread.has_run_next() && thread.running().is_some() {
                // First: who sleeps has no process in hand (see `quiet`).
                self.host.idle.get_up(self.index);
                let Some(token) = thread.take_run_next() else { return true };
                self.worker.counters.steals.add(1);
                self.worker.counters.stolen.add(1);
                // This thread sleeps, so its own slot is empty.
                self.thread.swap_run_next(token).into_iter().for_each(|token| self.deque.push(token));
                return true;
            }
        }
        false
    }

    fn keep_time(&self) {
        let now = Moment::now();
        if self.host.next_timer() <= now {
            self.host.fire_timers(now);
        }
    }

    fn keep_time_if_due(&self) {
        if self.host.next_timer() < Moment::NEVER {
            self.keep_time();
        }
    }
}
