//! Passing a permit from one thread to another: the hand-off protocol.
//!
//! # Words
//!
//! A thread that is about to block in a step *hands off* its permit, and *comes back* for one afterwards; its queues
//! stay with it, and every thread may empty them. A *spare* thread has neither permit nor work. A thread that has come
//! back in the middle of a step *waits* in a queue for a permit, since the step must continue on the thread's stack. A
//! *detached* thread is in a step without a permit: its permit was *taken over*, or it has come back from blocking in
//! async code, where its process is in a run queue and the thread only has to leave the step. *Calling* a thread means
//! setting a flag that it checks between two steps. All of this is decided under the lock of `sleep`; the documentation
//! of the [folder](super) has a table of the states.
//!
//! # Steps
//!
//! Thread T, with permit W, is about to block:
//! * H0 T flushes the tokens that it keeps to itself (`thread_cache`) to its deque; H1 under the lock, W goes to the
//!   first waiting thread; else to a spare thread, which counts as searching from then on and remembers T; else T
//!   starts a thread, if the limit allows, and repeats H1.
//! * H2 the thread that got W is woken. If it was a spare thread, it looks at T's deque first.
//! * H3 T runs the blocking code outside of its context: processes that it wakes in the meantime are queued as if woken
//!   from outside.
//!
//! T comes back:
//! * B1 under the lock, T takes the permit of the last sleeper, which becomes spare; if no thread sleeps, T joins the
//!   queue, or becomes detached; B2 in the queue, T calls the threads with permits, and parks until it has one.
//!
//! A thread that has a permit:
//! * A1 between two steps, it checks whether it has been called, and takes the lock only if so; A2 it flushes the
//!   tokens that it keeps to itself to its deque; A3 under the lock, it gives its permit to a waiting thread, and
//!   becomes spare; a detached thread becomes spare, too (if others drive it, it takes the permit and the place of a
//!   sleeper that has a thread of its own: `sched/driven`); A4 if it has become spare, it announces, with the fence,
//!   the work that it leaves behind.
//! * A thread that goes to sleep checks under the same lock whether a thread waits (sleep:S1), and if so gives it its
//!   permit instead.
//!
//! Thread T is stuck in a step (the watchdog performs these steps):
//! * M1 under the lock, if T is in a step, its permit goes to another thread as in H1, and T is detached; M2 T is
//!   notified that it has lost its permit; M3 the tokens that it keeps to itself go to the inject queue of that permit;
//!   M4 the thread that got the permit is woken.
//!
//! # Why
//!
//! *No permit is ever without a thread*: it changes hands in a single update of the table.
//!
//! *No thread waits forever*: a thread joins the queue only if no thread sleeps, under the lock. So all permits belong
//! to threads that check the queue under that lock, before they sleep and between two steps when called. B2 comes after
//! B1: a thread that cleared its flag before B2 set it checks again, and one that cleared it later takes the lock after
//! B1. A thread that gets its permit from the queue while others are still in it calls itself, since they have not
//! called it.
//!
//! *No work is missed* (see [`sleep`](super::sleep)): the spare thread of H1 and M1 searches, and has not looked at the
//! queues yet. A sleeper that B1 displaces may be between sleep:S1 and sleep:S3: it still does sleep:S3 and, as it no
//! longer has a permit, announces the work that it sees. So does a thread that gives its permit away at sleep:S1. If no
//! thread sleeps at B1, all permits run, and each does sleep:S1 after sleep:P3. The processes that T leaves in its
//! deque were its own work, announced without a fence. If a spare thread got W, it searches. If a waiting thread got W,
//! no thread slept at H1, and one that goes to sleep later sees the processes that T had queued by then, since both
//! take the lock. A4 has the fence because a detached thread may have queued something before it knew that it was
//! detached. (A thread that gives its permit to a waiting thread does not need the fence: before it took the lock, it
//! moved its work to where others look, and they take the lock later to go to sleep.) A thread that knows that it is
//! detached puts the processes that it wakes into the global queue. A thread that does not know yet (M2 is not seen at
//! once) may put something into its deque, or keep something to itself, too late for M3 and the searcher of M4 to see
//! it. The watchdog finds such work, since it keeps looking while there are detached threads. If T blocks first, T
//! finds it: T then learns that it has no permit to pass on, lists its deque, and announces.
//!
//! *Work that a thread leaves behind is visited*: each thread without a permit whose deque is not empty is listed in a
//! queue of the host. That queue is one of the shared queues (`find`).
//!
//! *A thread that wakes up has a permit*: a sleeper that was taken off the list has one, and counts as searching before
//! it wakes. It is not in a step: it was in none when it entered the list, and it takes the lock before it continues.
//! So M1 skips it, since M1 checks under the lock whether T is in a step. (Without that check, a watchdog that was
//! preempted before M1 could detach a sleeper that had just been woken, and that thread would count as searching
//! forever.)
//!
//! A thread that checks its flag late, after M2 or B2, runs one more step. After M2, one more step is then running than
//! there are permits.
//!
//! Source: Go passes its P on in the same way (`handoffp`, `exitsyscall` in `proc.go`). In Go the run queue belongs to
//! the P, here to the thread, because another thread must not touch the owner's half of the deque, and a stuck owner
//! may be inside a push. A model is in `tests/models`.

use super::blocking_queue::{Reservation, WaiterId};
use super::holders::{At, HandedOff, Need};
use super::sleep::{BecameSpare, Idle, POLLER, SEARCHING, SLEEPING, Sleepers};
use crate::sync::{Ordering, lock};
use crate::thread_cache::tokens::KeepsNothing;
use std::task::Waker;

/// How a thread comes back from blocking.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resumption {
    /// The thread has this permit. If a displaced sleeper is named, it must be woken.
    With(usize, Option<usize>),
    /// The thread waits in the queue. The caller must call these threads.
    Waits(Vec<usize>),
    Detached,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RestOutcome {
    /// The thread has this permit, and counts as searching. If another thread is named, that one may have left work
    /// behind.
    Up(usize, Option<usize>),
    /// The thread sleeps. True if there are more threads than permits.
    Asleep(bool),
    /// The thread is spare. True if there are too many threads.
    Spare(bool),
    /// The host has been stopped.
    Ended,
}

impl Idle {
    /// Performs H1: `from` is about to block. `grown` is true if a thread has been started to take its permit.
    pub(crate) fn hand_off(&self, from: usize, need: Need, grown: bool, _: KeepsNothing) -> HandedOff {
        let mut sleepers = lock(&self.sleepers);
        let handed_off = self.give_away(&mut sleepers, from, (need, grown), At::Blocked);
        if handed_off == HandedOff::Stays && need != Need::Room {
            sleepers.permits.record(from).in_place = true;
        }
        sleepers.permits.record(from).waits = matches!(need, Need::Process | Need::Room);
        handed_off
    }

    /// Performs H1 in async code: like [`hand_off`](Self::hand_off), but a step that would keep its permit is queued,
    /// and `waker` is woken when a thread is available. Also returns a waker that is no longer needed.
    pub(crate) fn hand_off_or_queue(
        &self,
        from: usize,
        waiter: Option<WaiterId>,
        mut waker: Waker,
        _: KeepsNothing,
    ) -> (Result<HandedOff, WaiterId>, Option<Waker>) {
        let mut sleepers = lock(&self.sleepers);
        let need = match waiter.map(|waiter| (waiter, sleepers.permits.blocking_queue.ask(waiter, &mut waker))) {
            None | Some((_, Reservation::Nothing)) => Need::Blocking,
            Some((waiter, Reservation::Reserved)) => Need::Reserved(waiter),
            Some((waiter, Reservation::Waits)) => return (Err(waiter), Some(waker)),
        };
        let handed_off = self.give_away(&mut sleepers, from, (need, false), At::Blocked);
        sleepers.permits.record(from).waits = false;
        match handed_off {
            HandedOff::Stays => {
                let waiter = sleepers.permits.blocking_queue.join(waker);
                self.note_queued_steps(&sleepers);
                (Err(waiter), None)
            }
            handed_off => (Ok(handed_off), Some(waker)),
        }
    }

    /// Removes a step from the queue. Returns whether a thread was reserved for it, and a waker that is no longer
    /// needed.
    pub(crate) fn leave_queue(&self, waiter: WaiterId) -> (bool, Option<Waker>) {
        let mut sleepers = lock(&self.sleepers);
        let left = sleepers.permits.blocking_queue.leave(waiter);
        self.note_queued_steps(&sleepers);
        left
    }

    fn note_queued_steps(&self, sleepers: &Sleepers) {
        self.queued_steps.store(sleepers.permits.blocking_queue.len(), Ordering::SeqCst);
    }

    /// Reserves threads that have become available for queued steps. Returns the wakers of these steps.
    #[must_use = "they must be woken"]
    pub(crate) fn reserve_threads(&self) -> Vec<Waker> {
        // A step is counted under the lock when it joins the queue, so a step that joined before the caller's most
        // recent critical section is seen here.
        if self.queued_steps.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let mut sleepers = lock(&self.sleepers);
        let served = std::iter::from_fn(|| sleepers.permits.reserve_for_queue()).collect();
        self.note_queued_steps(&sleepers);
        served
    }

    /// Performs M1: if `is_in_step` still returns true, passes the permit of `from` to another thread. `from` is the
    /// thread that is stuck in a step.
    pub(crate) fn take_over(&self, from: usize, is_in_step: impl FnOnce() -> bool) -> HandedOff {
        let mut sleepers = lock(&self.sleepers);
        if !is_in_step() {
            return HandedOff::HadNone;
        }
        self.give_away(&mut sleepers, from, (Need::Blocking, false), At::Detached)
    }

    fn give_away(&self, sleepers: &mut Sleepers, from: usize, (need, grown): (Need, bool), then: At) -> HandedOff {
        let permits = &mut sleepers.permits;
        if permits.stopped || !matches!(permits.at(from), At::Up(_)) {
            if then == At::Blocked {
                permits.set(from, At::Blocked);
            }
            return HandedOff::HadNone;
        }
        let handed_off = permits.next_holder(need, grown);
        match handed_off {
            HandedOff::ToWaiting(_) => _ = permits.pass_to_waiting(from, then),
            HandedOff::ToSpare(_) => {
                permits.pass_to_spare(from, then);
                self.counts.fetch_add(SEARCHING, Ordering::SeqCst);
            }
            HandedOff::Grow | HandedOff::Stays | HandedOff::HadNone => return handed_off,
        }
        if let Need::Reserved(waiter) = need {
            permits.blocking_queue.leave(waiter);
        }
        handed_off
    }

    /// Takes a record for a new thread that is to take over a permit. Returns `None` if no such thread is needed any
    /// more, or if none may be started yet.
    pub(crate) fn reserve(&self, need: Need) -> Option<usize> {
        let mut sleepers = lock(&self.sleepers);
        let may_start = sleepers.permits.may_start(need);
        may_start.then(|| self.admit(&mut sleepers, None))
    }

    /// Takes a record for a new thread, which begins with `permit`. A thread without a permit runs the work that is
    /// left on a stopped host.
    pub(crate) fn begin(&self, permit: Option<usize>) -> usize {
        self.admit(&mut lock(&self.sleepers), permit)
    }

    fn admit(&self, sleepers: &mut Sleepers, permit: Option<usize>) -> usize {
        let thread = sleepers.permits.admit(permit);
        self.count_records(sleepers);
        thread
    }

    /// Records that the thread has been started, without a permit.
    pub(crate) fn started(&self, thread: usize) {
        let mut sleepers = lock(&self.sleepers);
        if sleepers.permits.at(thread) == At::Starting {
            sleepers.permits.become_spare(thread);
        }
    }

    /// Frees the record of a thread that has ended, or could not be started.
    pub(crate) fn dismiss(&self, thread: usize) {
        let mut sleepers = lock(&self.sleepers);
        sleepers.permits.dismiss(thread);
        self.count_records(&sleepers);
    }

    fn count_records(&self, sleepers: &Sleepers) {
        self.high.store(sleepers.permits.high(), Ordering::SeqCst);
    }

    /// Performs B1: `thread` has finished blocking, and takes the permit of a sleeper. If no thread sleeps, it joins
    /// the queue or, with `or_detached`, continues without a permit.
    pub(crate) fn come_back(&self, thread: usize, or_detached: bool) -> Resumption {
        let mut sleepers = lock(&self.sleepers);
        if !sleepers.permits.stopped {
            if let Some(sleeper) = self.take_sleeper(&mut sleepers, 0)
                && let Some((permit, must_wake)) = sleepers.permits.displace(sleeper, thread)
            {
                return Resumption::With(permit, must_wake.then_some(sleeper));
            }
            if !or_detached {
                sleepers.permits.wait(thread);
                return Resumption::Waits(sleepers.permits.those(|at| matches!(at, At::Up(_))).collect());
            }
        }
        sleepers.permits.set(thread, At::Detached);
        Resumption::Detached
    }

    /// Takes the last sleeper off the list. `as_searcher` is [`SEARCHING`] if it counts as searching from now on,
    /// otherwise 0.
    pub(crate) fn take_sleeper(&self, sleepers: &mut Sleepers, as_searcher: u64) -> Option<usize> {
        let last = sleepers.list.len().checked_sub(1)?;
        Some(self.take_off(sleepers, last, as_searcher))
    }

    /// Takes the sleeper at index `place` off the list, as [`take_sleeper`](Self::take_sleeper) does.
    pub(crate) fn take_off(&self, sleepers: &mut Sleepers, place: usize, as_searcher: u64) -> usize {
        let sleeper = sleepers.list.remove(place);
        sleepers.rises += 1;
        let mut change = as_searcher.wrapping_sub(SLEEPING);
        if sleepers.poller == Some(sleeper) {
            sleepers.poller = None;
            change = change.wrapping_sub(POLLER);
        }
        self.counts.fetch_add(change, Ordering::SeqCst);
        sleeper
    }

    /// Performs A3 for a thread that has been called. Returns `None` if the thread continues.
    pub(crate) fn yield_permit(&self, thread: usize, _: KeepsNothing) -> Option<BecameSpare> {
        let mut sleepers = lock(&self.sleepers);
        let permits = &mut sleepers.permits;
        match permits.at(thread) {
            // On a stopped host, the thread runs the work left in its queues, and then ends.
            At::Up(_) | At::Detached if permits.stopped => None,
            At::Up(_) => permits.pass_to_waiting(thread, At::Spare).map(|next| {
                permits.become_spare(thread);
                BecameSpare(Some(next))
            }),
            At::Detached => {
                permits.become_spare(thread);
                let Sleepers { list, poller, permits, .. } = &mut *sleepers;
                Some(BecameSpare(permits.pass_from_sleeper(thread, list, *poller)))
            }
            // The thread has just been started.
            _ => Some(BecameSpare(None)),
        }
    }

    /// Returns what a parked or spare thread must do next. The poller's sleep is limited by the next timer instead of
    /// by `timed`.
    #[inline]
    pub(crate) fn look(&self, thread: usize, poller: bool) -> RestOutcome {
        let mut sleepers = lock(&self.sleepers);
        let Sleepers { list, permits, .. } = &mut *sleepers;
        match permits.at(thread) {
            At::Up(permit) => RestOutcome::Up(permit, permits.record(thread).behind.take()),
            _ if permits.stopped => RestOutcome::Ended,
            At::Asleep(_) => {
                let spare = permits.has_spare();
                if spare && !poller && permits.pass_place_to_driven(thread, list) {
                    return RestOutcome::Spare(permits.has_surplus());
                }
                permits.record(thread).timed = spare && !poller;
                RestOutcome::Asleep(spare)
            }
            _ => RestOutcome::Spare(permits.has_surplus()),
        }
    }

    /// Returns how a waiting thread continues; `None` while it has to wait.
    pub(crate) fn served(&self, thread: usize) -> Option<Resumption> {
        let sleepers = lock(&self.sleepers);
        match sleepers.permits.at(thread) {
            At::Waiting => None,
            At::Up(permit) => Some(Resumption::With(permit, None)),
            _ => Some(Resumption::Detached),
        }
    }

    /// Stops the host: from now on no thread waits for anything. Returns all threads, which must be woken.
    #[must_use = "the threads must be woken"]
    pub(crate) fn stop(&self) -> Vec<usize> {
        let mut sleepers = lock(&self.sleepers);
        sleepers.permits.stopped = true;
        self.end_limit();
        while let Some(sleeper) = self.take_sleeper(&mut sleepers, SEARCHING) {
            sleepers.permits.end_sleep(sleeper);
        }
        sleepers.permits.detach_waiting();
        sleepers.permits.those(|at| at != At::Free).collect()
    }
}
