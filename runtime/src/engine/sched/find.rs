//! Where a thread finds its next process.
//!
//! The order: the run-next slot, then the hot end of the own deque, the own permit's inject queue, the global queue
//! (one, and a batch of at most [`BATCH`] more into the own deque), and half of a random victim's deque, oldest first.
//!
//! # How long a process waits
//!
//! Three exceptions keep anyone from waiting for ever:
//! * after every [`FAIR`] steps, and at the first time slice after each tick of the
//!   [`watchdog`](crate::engine::sched::watchdog), one of the far ends comes first, one after the other: global queue,
//!   own inject queue, cold end of the own deque; in every second round what threads without a permit have left instead
//!   of the inject queue. If nothing is there, it looks at the own inject queue, and at that of one permit after the
//!   other, whose thread may have no core. At a tick, and at every fourth visit, the time is looked at, too;
//! * after [`STREAK`] time slices in a row from the run-next slot the deque comes first;
//! * a process that has used its time slice goes to the global queue, never back to a hot end (see `step`).
//!
//! And time slices are bounded: by [`BUDGET`](crate::process::slice::BUDGET) events, and by time (`slice`): a time
//! slice ends with the event that is at work at the second tick after it began. Ticks are a quarter of the stall limit
//! apart, 2.5 ms at most. So with e for the longest that one event takes (one message method, one poll of a future up
//! to where it waits):
//! * a time slice takes at most 128 events, and at most two ticks and e: 5 ms and e;
//! * a thread visits a far end after 20 steps, and at least once in a tick and a time slice; so each of the four at
//!   least once in 45 ms and 6 e, with time slices as long as they may be, the global queue and the deque twice as
//!   often, and an inject queue at each visit while the others are empty; one process is taken at a visit. So one that
//!   stands in line behind n others has a permit's turn at the latest after n + 1 visits (and after as many time slices
//!   more as it owes, see `step`); most often long before that, since idle permits take from all queues;
//! * what waits in the run-next slot or the deque behind one event that does not end is not bound to it: others take
//!   from the deque at once, from the slot after two ticks (`stall`, detector:J1); and if all permits are in such
//!   events, one of them goes to another thread after five quarters of the stall limit (detector:J2): 12.5 ms, and the
//!   time that the system takes to wake a thread.
//!
//! What is not bounded is how many others are ready at the same time: there are as many time slices at once as permits.
//!
//! A thread that finds nothing looks again: [`TIGHT`] times at once, then, while another thread is awake and might push
//! something, up to [`SPINS`] times with growing pauses, then it parks as `sleep` says. Yielding the thread instead of
//! pausing was measured on the prototype: the kernel brings a yielding thread back late (a message into an idle system
//! took 9.5 µs against 4.3). Work that is found starts the count anew.

use super::run_loop::Next;
use super::spare::RestStep;
use crate::engine::context::local::ThreadContext;
use crate::engine::workers::permit::Permit;
use crate::engine::workers::worker::Worker;
use crate::env::clock::Moment;
use crate::slots::Token;
use crate::sync::{Ordering, Steal, spin};

/// After how many steps a far end comes first. (Counted by what was spent, it came so often where each time slice takes
/// all its budget that a receiver was taken away from those who send to it: then their messages cross between the
/// cores, at five times the price. In time it is bounded by the ticks.)
const FAIR: u64 = 20;

/// Every how many visits to far ends the clock is read, timers are looked at, and the reactor.
const CLOCK: u32 = 4;

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

impl ThreadContext {
    /// Returns what to do next, after a look at what `handoff` and the watchdog have to say.
    #[cold]
    pub(super) fn next_when_called(&self) -> Next {
        if let Some(pinned_thread) = self.pinned_thread {
            // Always so on the thread of a pinned process: there is one that it may run.
            return self.next_of_pinned(pinned_thread);
        }
        if self.thread.take_tick() {
            // Far ends come first.
            self.fair.set(self.thread.counters.steps.get().saturating_sub(FAIR));
            self.keep_time();
        }
        if self.thread.is_unwatched() {
            self.see_to_watch();
        }
        if self.thread.is_called() {
            if self.is_new.take() {
                return self.after_rest(self.rest(false, false));
            }
            if let Some(rest) = self.attend() {
                return self.after_rest(rest);
            }
        }
        match self.take_near() {
            Some(token) => Next::Run(token),
            None => self.search(self.host.idle.start_searching()),
        }
    }

    /// The next process from this thread's own queues, and the global one.
    #[inline]
    pub(super) fn take_near(&self) -> Option<Token> {
        let steps = self.thread.counters.steps.get();
        if steps - self.fair.get() >= FAIR {
            self.fair.set(steps);
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
        let visit = self.visits.get().wrapping_add(1);
        self.visits.set(visit);
        if visit.is_multiple_of(CLOCK) {
            self.keep_time();
            self.visit_reactor();
        }
        if !self.deque.is_empty() {
            // With the fence that pushes to the own deque leave out.
            self.host.announce();
        }
        let token = self.take_far(visit).or_else(|| self.take_outside(visit))?;
        self.thread.counters.fair.add(1);
        Some(token)
    }

    /// One of the ends that nearer ones could hide for ever.
    fn take_far(&self, visit: u32) -> Option<Token> {
        match visit % 3 {
            0 => self.host.global.pop(),
            1 if visit.is_multiple_of(2) => self.take_left(),
            1 => self.permit.get().inject.pop(),
            _ => match self.thread.stealer.steal() {
                Steal::Success(token) => Some(token),
                Steal::Empty | Steal::Retry => None,
            },
        }
    }

    /// What has been sent from outside to a process of this permit, or of the one whose time slice it is.
    fn take_outside(&self, visit: u32) -> Option<Token> {
        let permits = &self.host.permits;
        let other: &Permit = &permits[visit as usize % permits.len()];
        [self.permit.get(), other]
            .iter()
            .filter(|permit| !permit.inject.is_empty())
            .find_map(|permit| permit.inject.pop())
    }

    /// What a thread without a permit has left behind: the next in line is visited, and goes to the end of the line if
    /// it has more.
    fn take_left(&self) -> Option<Token> {
        let left = self.host.left.pop()?;
        let thread = self.host.threads.get(left)?;
        thread.is_left.store(false, Ordering::SeqCst);
        let found = self.steal_from(thread);
        self.host.leave_behind(left, thread);
        found
    }

    /// One of what was sent from outside. As with the global queue, a look first: the queue's own `pop` has a fence for
    /// one that is empty, twenty cycles in each time slice. What comes right after the look is announced by the thread
    /// that pushes it.
    #[inline]
    fn take_inject(&self) -> Option<Token> {
        let inject = &self.permit.get().inject;
        if inject.is_empty() {
            return None;
        }
        let token = inject.pop()?;
        self.thread.counters.from_inject.add(1);
        Some(token)
    }

    /// One from the global queue, and a batch that goes to the own deque: newest first, so that its owner, who takes
    /// from the hot end, runs them in their order.
    #[inline]
    fn take_global(&self) -> Option<Token> {
        let global = &self.host.global;
        if global.is_empty() {
            return None;
        }
        let first = global.pop()?;
        self.thread.counters.from_global.add(1);
        if !global.is_empty() {
            self.take_batch();
        }
        Some(first)
    }

    fn take_batch(&self) {
        let batch: smallvec::SmallVec<[Token; BATCH]> =
            std::iter::from_fn(|| self.host.global.pop()).take(BATCH).collect();
        self.thread.counters.from_global.add(batch.len() as u64);
        if !batch.is_empty() {
            batch.into_iter().rev().for_each(|token| self.deque.push(token));
            self.host.announce();
        }
    }

    /// Looks everywhere until there is something, or the thread is to rest or to end. `searching`: it counts as
    /// searching already.
    #[cold]
    pub(super) fn search(&self, searching: bool) -> Next {
        let (mut searching, mut visited) = (searching, false);
        loop {
            let over = self.host.is_stopped();
            let found = if searching && !over { self.search_awake() } else { None };
            let last = searching && (found.is_some() || over) && self.host.idle.stop_searching();
            if last && (self.host.has_work() || self.host.has_unkept_timers()) {
                self.host.announce();
            }
            if over {
                return self.exit();
            }
            if let Some(token) = found {
                return Next::Run(token);
            }
            let is_due = self.is_timer_due();
            if is_due || !visited && self.has_tasks() {
                // Not as one that searches: others rely on it to look soon. (driving:D6)
                if searching && self.host.idle.stop_searching() && self.host.has_work() {
                    self.host.announce();
                }
                if is_due {
                    self.keep_time();
                }
                self.visit_reactor();
                if self.thread.attention() != 0 {
                    return self.next_when_called();
                }
                // rest:T1: what a timer has queued here is announced to no thread, as in a time slice; so this thread
                // does not lie down before it has looked, whether or not it may search.
                if let Some(token) = self.take_near() {
                    if self.host.has_work() || self.host.has_unkept_timers() {
                        self.host.announce();
                    }
                    return Next::Run(token);
                }
                (searching, visited) = (self.host.idle.start_searching(), true);
                continue;
            }
            match self.sleep(searching) {
                RestStep::Up => (searching, visited) = (true, false),
                rest => return self.after_rest(rest),
            }
        }
    }

    fn search_awake(&self) -> Option<Token> {
        let behind = self.behind.take().and_then(|behind| self.take_behind(behind));
        if behind.is_some() {
            return behind;
        }
        for round in 0..TIGHT + SPINS {
            if round >= TIGHT {
                if self.thread.is_called() || !self.host.idle.is_another_awake() || self.host.is_stopped() {
                    return None;
                }
                self.thread.counters.spins.add(1);
                (0..1_u32 << (round - TIGHT).min(7)).for_each(|_| spin());
            } else {
                self.thread.counters.polls.add(1);
            }
            if let Some(token) = self.look_everywhere() {
                return Some(token);
            }
            if self.is_timer_due() {
                return None;
            }
        }
        None
    }

    pub(super) fn look_everywhere(&self) -> Option<Token> {
        self.thread
            .take_run_next()
            .or_else(|| self.deque.pop())
            .or_else(|| self.take_inject())
            .or_else(|| self.take_global())
            .or_else(|| self.steal())
    }

    /// What the thread that had this permit before has left: what it was to run next, or half of its deque.
    fn take_behind(&self, behind: usize) -> Option<Token> {
        let thread = self.host.threads.get(behind)?;
        let found =
            thread.take_run_next().inspect(|_| self.thread.counters.stolen.add(1)).or_else(|| self.steal_from(thread));
        found.inspect(|_| self.thread.counters.steals.add(1))
    }

    /// Half of a random victim's deque, or one from an inject queue.
    fn steal(&self) -> Option<Token> {
        let (threads, permits) = (self.host.idle.high(), self.host.permits.len());
        let count = threads.max(permits);
        let first = self.random.borrow_mut().below(count);
        for other in (first..count).chain(0..first) {
            let victim = self.host.threads.get(other).filter(|_| other < threads && other != self.index);
            let found = victim
                .and_then(|victim| self.steal_from(victim))
                .or_else(|| self.host.permits.get(other)?.inject.pop().inspect(|_| self.thread.counters.stolen.add(1)));
            if found.is_some() {
                self.thread.counters.steals.add(1);
                return found;
            }
        }
        None
    }

    fn steal_from(&self, victim: &Worker) -> Option<Token> {
        loop {
            let before = self.deque.len();
            match victim.stealer.steal_batch_with_limit_and_pop(&self.deque, THEFT) {
                Steal::Success(token) => {
                    let moved = self.deque.len().saturating_sub(before);
                    self.thread.counters.stolen.add(1 + moved as u64);
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

    fn keep_time(&self) {
        let now = Moment::now();
        if self.host.next_timer() <= now {
            self.host.fire_timers(now);
        }
    }

    fn is_timer_due(&self) -> bool {
        let next = self.host.next_timer();
        next < Moment::NEVER && next <= Moment::now()
    }
}
