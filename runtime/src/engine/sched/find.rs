//! Finds the next process of a thread.
//!
//! The order is: the run-next slot (the thread may keep other processes besides that one: `thread_cache`), the hot end
//! of the thread's own deque, its permit's inject queue, the global queue (one process, plus a batch of at most
//! [`BATCH`] more that moves to the thread's deque), and half of a random victim's deque, oldest first.
//!
//! # How long a process waits
//!
//! Three exceptions prevent starvation:
//! * after every [`FAIR`] steps, and at the first time slice after each tick of the
//!   [`watchdog`](crate::engine::sched::watchdog), one of the shared queues comes first, in rotation: the global queue,
//!   the inject queue of the thread's permit, and the cold end of the thread's deque; in every second round, work left
//!   by threads without a permit replaces the inject queue. If that queue is empty, the thread tries the inject queue
//!   of its own permit, then that of another permit in rotation, since that permit's thread may not be running. At a
//!   tick, and at every fourth visit, it also checks the clock; and at each visit, it empties the [vacant
//!   slots](crate::engine::host::late_slots) in which something has arrived;
//! * after [`STREAK`] steps in a row of processes from the run-next slot, the deque comes first;
//! * a process that has used up its time slice goes to the global queue, never back to a hot end (see `step`).
//!
//! Time slices are bounded, too: by [`BUDGET`](crate::process::slice::BUDGET) events, and by time (`slice`): a time
//! slice ends with the event in progress at the second tick after it began. Ticks are a quarter of the stall limit
//! apart, at most 2.5 ms. Let e be the longest time of one event (one message method, or one poll of a future up to
//! where it waits). Then:
//! * a time slice takes at most 128 events, and at most two ticks plus e: 5 ms + e;
//! * a thread visits a shared queue after 20 steps, and at least once per tick plus time slice. With the longest time
//!   slices, it therefore visits each of the four at least once in 45 ms + 6 e, the global queue and the deque twice as
//!   often, and an inject queue at each visit while the others are empty. Each visit takes one process, so a process
//!   behind n others in a queue gets a permit after at most n + 1 visits (plus its deficit in time slices, see `step`);
//!   usually long before that, since idle permits take from all queues;
//! * a process queued behind an event that never ends is rescued. If it is in the deque, other threads take it at once,
//!   or after two ticks if they are held back (`awake_limit`); from the run-next slot and the cache it is taken after
//!   two ticks (detector:J1). If all permits are in such events, one of the permits goes to another thread after five
//!   quarters of the stall limit (detector:J2): 12.5 ms, plus the time that the system takes to wake a thread.
//!
//! The number of processes that are ready at once is not bounded, but no more run at a time than there are permits.
//!
//! A thread that finds nothing looks again: [`TIGHT`] times without a pause, then, while another thread is awake and
//! might push something, up to [`SPINS`] times with growing pauses; then it parks as described in `sleep`. In the
//! prototype, yielding the thread instead of pausing was slower: the kernel resumes a yielding thread late (a message
//! into an idle system took 9.5 µs instead of 4.3). Finding work restarts the count.

use super::run_loop::Next;
use super::spare::RestStep;
use crate::engine::context::thread::ThreadContext;
use crate::engine::workers::Permit;
use crate::engine::workers::worker::{RECORDED, TIMED, Worker};
use crate::env::clock::Moment;
use crate::slots::Token;
use crate::sync::{Ordering, Steal, spin};

/// Number of steps after which a shared queue comes first. (Counting the spent budget instead made these visits so
/// frequent with full time slices that receivers were moved away from their senders: messages then cross between cores,
/// at five times the cost. The ticks bound the time between visits.)
const FAIR: u64 = 20;

/// Number of visits to shared queues between two checks of the clock, the timers and the reactor.
const CLOCK: u32 = 4;

/// After this many steps in a row of processes from the run-next slot, the deque comes first.
const STREAK: u64 = 64;

/// Maximum number of processes that a visit to the global queue takes besides the first.
const BATCH: usize = 16;

/// Maximum number of processes that one theft takes. Thieves take half of a deque, but each item costs them a fence:
/// this bounds the pause.
const THEFT: usize = 256;

/// Number of times that a thread without work looks at the queues without a pause.
const TIGHT: u32 = 4;

/// Number of times that the thread then looks with growing pauses, before it parks.
const SPINS: u32 = 12;

impl ThreadContext {
    /// Handles requests from `handoff` and the watchdog. Returns the next action if a request determines it.
    #[cold]
    pub(super) fn next_when_called(&self) -> Option<Next> {
        self.write_slice_end_unless_at_once();
        if let Some(pinned_thread) = self.pinned_thread {
            // The thread of a pinned process always takes this branch, since it runs only that process.
            return Some(self.recorded(self.next_of_pinned(pinned_thread)));
        }
        if self.thread.take_tick() {
            self.cooldown();
            self.give_old_vacant_back();
            // Makes a shared queue come first.
            self.fair.set(self.thread.counters.steps.get().saturating_sub(FAIR));
            self.keep_time();
        }
        if self.thread.take_notified() {
            self.flush_cache();
        }
        if self.thread.is_unwatched() {
            self.see_to_watch();
        }
        if !self.thread.is_called() {
            if let Some(next) = self.next_recorded() {
                return Some(next);
            }
            return if self.thread.is_asked_for_time() {
                self.take_near().map(|token| self.run_or_time(token))
            } else {
                None
            };
        }
        // A new thread keeps no tokens: the previous thread that used its record has flushed.
        let rest = if self.is_new.take() { self.rest(false, false) } else { self.yield_permit()? };
        Some(self.after_rest(rest))
    }

    /// Returns the action that runs a process or, if the thread was asked to, times one of its messages.
    pub(crate) fn run_or_time(&self, token: Token) -> Next {
        if self.thread.take_request_for_time() { Next::RunTimed(token) } else { Next::Run(token) }
    }

    /// Takes the next process from this thread's own queues or from the global queue.
    #[inline(always)]
    pub(super) fn take_near(&self) -> Option<Token> {
        let steps = self.thread.counters.steps.get();
        if steps - self.fair.get() >= FAIR {
            self.fair.set(steps);
            if let Some(token) = self.be_fair() {
                return Some(token);
            }
        }
        if steps - self.streak_since.get() < STREAK
            && let Some(token) = self.thread.local.take_next_to_run()
        {
            return Some(token);
        }
        self.streak_since.set(steps);
        let other = self.pop().or_else(|| self.take_inject()).or_else(|| self.take_global());
        if other.is_none()
            && let Some(token) = self.thread.local.take_next_to_run()
        {
            self.set_follow_until();
            return Some(token);
        }
        if other.is_some() {
            self.leave_front();
            return other;
        }
        self.evict_cached();
        self.pop()
    }

    /// Returns whether a visit to a shared queue, and perhaps to the timers and the reactor, is due.
    #[inline(always)]
    pub(super) fn is_fairness_due(&self) -> bool {
        self.thread.counters.steps.get() - self.fair.get() >= FAIR
    }

    /// Takes the newest process from the thread's deque. Checks first whether the deque is empty, since its `pop`
    /// executes a fence even then. Only this thread pushes to it, so the check misses nothing.
    #[inline]
    fn pop(&self) -> Option<Token> {
        if self.deque.is_empty() { None } else { self.deque.pop() }
    }

    #[inline(never)]
    fn be_fair(&self) -> Option<Token> {
        self.check_cache();
        self.warm_up();
        self.set_follow_until();
        let visit = self.visits.get().wrapping_add(1);
        self.visits.set(visit);
        if visit.is_multiple_of(CLOCK) {
            self.keep_time();
            self.visit_reactor();
        }
        if !self.host.late_slots.is_empty() {
            self.empty_late_slots();
        }
        if !self.deque.is_empty() {
            // `announce` executes the fence that pushes to the thread's deque omit.
            self.host.announce();
        }
        let token = self.take_far(visit).or_else(|| self.take_outside(visit))?;
        self.leave_front();
        self.thread.counters.fair.add(1);
        Some(token)
    }

    /// Sets how long processes may follow each other directly: until the next visit to a shared queue or the end of the
    /// streak, and not at all during the cooldown.
    fn set_follow_until(&self) {
        let until = (self.fair.get() + FAIR).min(self.streak_since.get() + STREAK);
        self.follow_until.set(if self.cooldown.get() == 0 { until } else { 0 });
    }

    /// Takes from one of the queues that nearer queues could starve, in rotation.
    fn take_far(&self, visit: u32) -> Option<Token> {
        match visit % 3 {
            0 => self.host.global.pop(),
            1 if visit.is_multiple_of(2) => self.take_left(),
            1 => self.permit.get().take(),
            _ => match self.thread.stealer.steal() {
                Steal::Success(token) => Some(token),
                Steal::Empty | Steal::Retry => None,
            },
        }
    }

    /// Takes a process that was woken from outside, from the inject queue of this permit or of the next one in
    /// rotation.
    fn take_outside(&self, visit: u32) -> Option<Token> {
        let permits = &self.host.permits;
        let other: &Permit = &permits[visit as usize % permits.len()];
        self.permit.get().take().or_else(|| other.take())
    }

    /// Takes from the deque of the first listed thread without a permit. If that deque contains more, the thread goes
    /// to the end of the list.
    fn take_left(&self) -> Option<Token> {
        let left = self.host.left.pop()?;
        let thread = self.host.threads.get(left)?;
        thread.is_left.store(false, Ordering::SeqCst);
        let found = self.steal_from(left, thread);
        self.host.leave_behind(left, thread);
        found
    }

    #[inline]
    fn take_inject(&self) -> Option<Token> {
        self.permit.get().take().inspect(|_| self.thread.counters.from_inject.add(1))
    }

    /// Takes one process from the global queue, and moves a batch into the thread's deque: newest first, so that the
    /// owner, which takes from the hot end, runs them in order.
    #[inline]
    fn take_global(&self) -> Option<Token> {
        let global = &self.host.global;
        if global.is_empty() || self.host.idle.are_too_many_awake() {
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

    /// Searches all queues until there is work, or the thread must rest or exit. `searching` says whether the thread
    /// counts as searching.
    #[cold]
    pub(super) fn search(&self, searching: bool) -> Next {
        let found = self.search_for_work(searching);
        self.recorded(found)
    }

    fn search_for_work(&self, searching: bool) -> Next {
        let (mut searching, mut visited) = (searching, false);
        loop {
            let over = self.host.is_stopped();
            let found = match searching && !over {
                // See *Held back* in `sleep`.
                true if self.host.idle.are_too_many_awake() => self.take_own(),
                true => self.search_awake(),
                false => None,
            };
            let last = searching && (found.is_some() || over) && self.host.idle.stop_searching();
            if last && (self.host.has_work() || self.host.has_unkept_timers()) {
                self.host.announce();
            }
            if over {
                return self.exit();
            }
            if let Some(token) = found {
                return self.run_or_time(token);
            }
            let is_due = self.is_timer_due();
            if is_due || !self.host.late_slots.is_empty() || !visited && self.has_tasks() {
                // Stop searching first: other threads rely on a searcher to look soon (driving:D6).
                if searching && self.host.idle.stop_searching() && self.host.has_work() {
                    self.host.announce();
                }
                if is_due {
                    self.keep_time();
                }
                self.empty_late_slots();
                self.visit_reactor();
                // A request to time a message stays pending until a process is found, and a recording stays on: neither
                // is a reason to start over.
                if self.thread.attention() & !(TIMED | RECORDED) != 0 {
                    return self.next();
                }
                // rest:T1: as in a time slice, work that a timer has queued here is not announced; so this thread looks
                // for it before it parks, whether or not it may search.
                if let Some(token) = self.take_near() {
                    if self.host.has_work() || self.host.has_unkept_timers() {
                        self.host.announce();
                    }
                    return self.run_or_time(token);
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

    /// Takes from the deque that the permit's previous thread left behind, and from this thread's own queues.
    fn take_own(&self) -> Option<Token> {
        let behind = self.behind.take().and_then(|behind| self.take_behind(behind));
        behind.or_else(|| self.thread.local.take_next_to_run()).or_else(|| self.pop()).or_else(|| self.take_inject())
    }

    fn search_awake(&self) -> Option<Token> {
        let behind = self.behind.take().and_then(|behind| self.take_behind(behind));
        if behind.is_some() {
            return behind;
        }
        // Spinning would keep the tasks of a driver from running.
        let rounds = if self.is_driven { 1 } else { TIGHT + SPINS };
        for round in 0..rounds {
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
            .local
            .take_next_to_run()
            .or_else(|| self.pop())
            .or_else(|| self.take_inject())
            .or_else(|| self.take_global())
            .or_else(|| self.steal())
    }

    /// Takes half of the deque of the thread that had this permit before.
    fn take_behind(&self, behind: usize) -> Option<Token> {
        let found = self.steal_from(behind, self.host.threads.get(behind)?);
        found.inspect(|_| self.thread.counters.steals.add(1))
    }

    /// Takes half of a random victim's deque, or one process from an inject queue.
    fn steal(&self) -> Option<Token> {
        let (threads, permits) = (self.host.idle.high(), self.host.permits.len());
        let count = threads.max(permits);
        let first = self.random.borrow_mut().below(count);
        for other in (first..count).chain(0..first) {
            let victim = self.host.threads.get(other).filter(|_| other < threads && other != self.index);
            let found = victim
                .and_then(|victim| self.steal_from(other, victim))
                .or_else(|| self.host.permits.get(other)?.take().inspect(|_| self.thread.counters.stolen.add(1)));
            if found.is_some() {
                self.thread.counters.steals.add(1);
                return found;
            }
        }
        None
    }

    fn steal_from(&self, number: usize, victim: &Worker) -> Option<Token> {
        loop {
            let before = self.deque.len();
            match victim.stealer.steal_batch_with_limit_and_pop(&self.deque, THEFT) {
                Steal::Success(token) => {
                    let moved = self.deque.len().saturating_sub(before);
                    self.thread.counters.stolen.add(1 + moved as u64);
                    self.record_theft(number, 1 + moved as u64);
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

#[cfg(test)]
mod tests {
    use crate::Runtime;
    use crate::engine::context::thread::with_current;
    use crate::manual::{Events, Process, StepOutput};
    use crate::sync::{Arc, AtomicUsize, Ordering, yield_now};

    /// A process whose steps call the closure.
    struct Steps<F>(F);

    impl<F: FnMut(&mut Events<'_>) + Send + 'static> Process for Steps<F> {
        fn step(&mut self, events: &mut Events<'_>, _: &mut StepOutput<'_>) -> Result<(), crate::ProcessError> {
            (self.0)(events);
            Ok(())
        }
    }

    /// Catches: a limit that persists while a step does not end. The step in this test ends only after everything that
    /// it queued has run.
    #[test]
    fn what_lies_behind_a_long_step_is_found_by_threads_that_are_held_back() {
        const BEHIND: usize = 10;
        let runtime = Runtime::builder().workers(2).build().expect("it starts");
        let ran = Arc::new(AtomicUsize::new(0));
        let behind: Vec<_> = (0..BEHIND)
            .map(|_| {
                let ran = ran.clone();
                let counts = move |events: &mut Events<'_>| {
                    while events.next().is_some() {
                        ran.fetch_add(1, Ordering::SeqCst);
                    }
                };
                runtime.spawn_process(Steps(counts)).start().expect("it starts")
            })
            .collect();
        let (host, awaited) = (runtime.host(), ran.clone());
        let holds_back = move |_: &mut Events<'_>| {
            with_current(|context| context.expect("a step").host.idle.limit_awake(1));
            behind.iter().for_each(|&pid| host.send(pid, ()).expect("it lives"));
            while awaited.load(Ordering::SeqCst) < BEHIND {
                yield_now();
            }
        };
        let _long = runtime.spawn_process(Steps(holds_back)).start().expect("it starts");
        while ran.load(Ordering::SeqCst) < BEHIND {
            yield_now();
        }
        assert!(runtime.shutdown().expect("not inside").is_clean());
    }
}
