//! Passing a permit from one thread to another: the hand-off protocol.
//!
//! # Words
//!
//! A permit is the right to run steps. A thread that is about to block in a step *hands off* its permit, and *comes
//! back* for one; its queues stay with it, and every thread may empty them. A *spare* thread has neither permit nor
//! work. A thread that has come back in the middle of a step, which must continue on its stack, *waits* in a queue for
//! a permit. A *detached* thread is in a step without a permit: it has been *taken over*, or it has come back from
//! blocking in async code, where its process waits in a run queue and the thread only has to leave the step. All this
//! is decided under the lock of `sleep`, and each permit belongs to exactly one thread at any time
//! ([`holders`](super::holders)).
//!
//! # Steps
//!
//! Thread T, with permit W, is about to block:
//! * H1 under the lock, W goes to the thread that waits first; else to a spare thread, which counts as searching from
//!   here on and remembers T; else T starts a thread, unless there are as many as there may be, and begins again.
//! * H2 the thread that got W is woken. A spare thread looks first at T's run-next slot and deque; for one that waited,
//!   T moves the content of its run-next slot to its deque, and announces that, with the fence.
//! * H3 T runs without the context: what it wakes meanwhile is queued as from outside.
//!
//! T comes back:
//! * B1 under the lock, it takes the permit of the last sleeper, which is a spare thread from here on; else it joins
//!   the line (or is detached); B2 the threads with permits are called, and T parks until it has one.
//!
//! A thread that has a permit:
//! * A1 between two steps it looks whether it has been called, and only then at the lock; A2 if so, it moves the
//!   content of its run-next slot to its deque; A3 under the lock: if a thread waits it gives its permit away and is
//!   spare, and so is a detached one; A4 if so, it announces, with the fence, what it leaves behind.
//! * A thread that lies down looks under the same lock whether a thread waits (sleep:S1), and if so gives it its permit
//!   instead.
//!
//! Thread T is stuck in a step (the watchdog's):
//! * M1 under the lock, if T is in a step, its permit goes to one that waits, or to a spare thread as in H1, and T is
//!   detached; M2 T is told that it has lost its permit; M3 the content of its run-next slot goes to the inject queue
//!   of that permit; M4 the thread that got the permit is woken.
//!
//! # Why
//!
//! *No permit is without a thread*: it changes hands in one change of the table. *No thread waits for ever*: a thread
//! joins the line only if no thread sleeps, under the lock; so all permits belong to threads that look at the line
//! before they sleep, under the same lock, and between two steps, since B2 comes after B1: a thread that cleared its
//! flag before B2 set it looks again, and one that cleared it later takes the lock after B1. One that gets its permit
//! from the line, while others are still in it, calls itself: it was not called by them.
//!
//! *No work is missed* (see [`sleep`](super::sleep)): the spare thread of H1 and M1 searches, and has seen nothing of
//! the queues before. A sleeper that B1 displaces may be between sleep:S1 and sleep:S3: it still does sleep:S3, and as
//! it cannot get up, it announces what it sees, for others. So does one that gives its permit away where it wanted to
//! sleep. If no thread sleeps then, all permits run, and each does sleep:S1 after sleep:P3. What T leaves in its deque
//! was its own work, announced without a fence: so H2 towards one that waited has the fence, since a thread may lie
//! down between H1 and H2; and so has A4, for a detached thread, which may have queued something before it knew. (A
//! thread that gives its permit to one that waits has put its work where others look before it took the lock, under
//! which they lie down after it.) A thread that knows itself to be detached puts what it wakes into the global queue;
//! one that does not know yet (M2 is not seen at once) may leave something in its deque that the searcher of M4 has not
//! seen: the watchdog, which looks again as long as there are detached threads, finds it.
//!
//! *What a thread leaves behind is visited*: each thread without a permit whose deque is not empty is in a queue of the
//! host, which is one of the far ends (`find`).
//!
//! *No thread loses a permit that it is about to wake up with*: a sleeper that has been taken off the list has a permit
//! and counts as searching before it knows. It is in no step: it was in none when it entered the list, and it leaves
//! the rest under the lock. So M1, which asks under the lock whether T is in a step, passes it by. (Found by the stress
//! of `stalls`: the watchdog's thread had been put aside between its look and M1; the sleeper woke up detached, and was
//! counted as searching for ever.)
//!
//! A look at the flag that comes late, after M2 or B2, means one step more on that thread; by M2, one step more at once
//! than there are permits.
//!
//! Source: Go hands its P on in the same way (`handoffp`, `exitsyscall` in `proc.go`); there the P has the queue, here
//! the thread: its owner half must not be touched by another thread, and a stuck one may be inside a push. A model is
//! in `tests/models`.

use super::blocking_queue::{Reservation, WaiterId};
use super::holders::{At, Need, NextHolder};
use super::sleep::{Idle, POLLER, SEARCHING, SLEEPING, Sleepers};
use crate::sync::{Ordering, lock};
use std::task::Waker;

/// The result of handing off a permit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HandedOff {
    /// A spare thread has it, and counts as searching: wake it.
    ToSpare(usize),
    /// A thread that waited has it: wake it.
    ToWaiting(usize),
    /// The thread had no permit.
    HadNone,
    /// A thread must be started first.
    Grow,
    /// There is no thread for it; the step keeps it while it blocks.
    Stays,
}

/// How a thread comes back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resumption {
    /// With that permit. The other thread, if any, must be woken.
    With(usize, Option<usize>),
    /// It waits in the queue; call these threads.
    Waits(Vec<usize>),
    /// Without a permit.
    Detached,
}

/// What a called thread does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Attended {
    /// Continue.
    GoesOn,
    /// Become spare; if a waiting thread got its permit, wake it.
    Spare(Option<usize>),
}

/// The state of a resting thread.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RestOutcome {
    /// It has that permit, and counts as searching; the other thread, if any, may have left work behind.
    Up(usize, Option<usize>),
    /// It sleeps; with whether there are more threads than permits.
    Asleep(bool),
    /// It is spare; with whether there are too many threads.
    Spare(bool),
    /// The host has been stopped.
    Ended,
}

impl Idle {
    /// H1: `from` is about to block. A thread may have been started for it.
    pub(crate) fn hand_off(&self, from: usize, need: Need, grown: bool) -> HandedOff {
        let mut sleepers = lock(&self.sleepers);
        let handed_off = self.give_away(&mut sleepers, from, (need, grown), At::Blocked);
        match handed_off {
            HandedOff::HadNone => sleepers.permits.go_without(from, true),
            HandedOff::Stays if need != Need::Room => sleepers.permits.stay(from, true),
            _ => {}
        }
        sleepers.permits.note_waits(from, matches!(need, Need::Process | Need::Room));
        handed_off
    }

    /// H1 in async code: like [`hand_off`](Self::hand_off), but a step that would keep its permit gets a place in the
    /// queue, and `waker` is woken when there is a thread. Returns the waker that is not needed.
    pub(crate) fn hand_off_or_queue(
        &self,
        from: usize,
        waiter: Option<WaiterId>,
        mut waker: Waker,
    ) -> (Result<HandedOff, WaiterId>, Option<Waker>) {
        let mut sleepers = lock(&self.sleepers);
        let need = match waiter.map(|waiter| (waiter, sleepers.permits.blocking_queue.ask(waiter, &mut waker))) {
            None | Some((_, Reservation::Nothing)) => Need::Blocking,
            Some((waiter, Reservation::Reserved)) => Need::Reserved(waiter),
            Some((waiter, Reservation::Waits)) => return (Err(waiter), Some(waker)),
        };
        let handed_off = self.give_away(&mut sleepers, from, (need, false), At::Blocked);
        sleepers.permits.note_waits(from, false);
        match handed_off {
            HandedOff::Stays => {
                let waiter = sleepers.permits.blocking_queue.join(waker);
                self.note_queued_steps(&sleepers);
                (Err(waiter), None)
            }
            HandedOff::HadNone => {
                sleepers.permits.go_without(from, true);
                (Ok(HandedOff::HadNone), Some(waker))
            }
            handed_off => (Ok(handed_off), Some(waker)),
        }
    }

    /// Gives a place up. Returns whether a thread was reserved, and a waker that is not needed.
    pub(crate) fn leave_queue(&self, waiter: WaiterId) -> (bool, Option<Waker>) {
        let mut sleepers = lock(&self.sleepers);
        let left = sleepers.permits.blocking_queue.leave(waiter);
        self.note_queued_steps(&sleepers);
        left
    }

    fn note_queued_steps(&self, sleepers: &Sleepers) {
        self.queued_steps.store(sleepers.permits.blocking_queue.len(), Ordering::SeqCst);
    }

    /// Reserves threads that have become available. Returns the wakers of their steps.
    #[must_use = "they must be woken"]
    pub(crate) fn reserve_threads(&self) -> Vec<Waker> {
        // A step in the queue was counted under the lock, before earlier critical sections here.
        if self.queued_steps.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let mut sleepers = lock(&self.sleepers);
        let served = std::iter::from_fn(|| sleepers.permits.reserve_for_queue()).collect();
        self.note_queued_steps(&sleepers);
        served
    }

    /// Notes whether a step keeps its permit while it blocks.
    pub(crate) fn stay(&self, thread: usize, blocks: bool) {
        lock(&self.sleepers).permits.stay(thread, blocks);
    }

    pub(crate) fn is_in_place(&self, thread: usize) -> bool {
        lock(&self.sleepers).permits.is_in_place(thread)
    }

    /// Notes that blocking code begins, or ends, a wait for another process.
    pub(crate) fn note_waits(&self, thread: usize, waits: bool) {
        lock(&self.sleepers).permits.note_waits(thread, waits);
    }

    /// M1: the permit of `from`, which is stuck in a step, goes to another thread, if `is_in_step` still holds.
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
            return HandedOff::HadNone;
        }
        let handed_off = match permits.next_holder(need, grown) {
            NextHolder::Waiting(next) => {
                permits.pass_to_waiting(from, then);
                HandedOff::ToWaiting(next)
            }
            NextHolder::Spare(next) => {
                permits.pass_to_spare(from, then);
                self.counts.fetch_add(SEARCHING, Ordering::SeqCst);
                HandedOff::ToSpare(next)
            }
            NextHolder::New => return HandedOff::Grow,
            NextHolder::None => return HandedOff::Stays,
        };
        if let Need::Reserved(waiter) = need {
            permits.blocking_queue.leave(waiter);
        }
        handed_off
    }

    /// Takes a record for a thread to be started as a successor; `None` if that is no longer needed, or not allowed
    /// yet.
    pub(crate) fn reserve(&self, need: Need) -> Option<usize> {
        let mut sleepers = lock(&self.sleepers);
        if !sleepers.permits.may_start(need) {
            return None;
        }
        let thread = sleepers.permits.admit(None);
        self.count_records(&sleepers);
        Some(thread)
    }

    /// Takes a record for a thread that begins with that permit.
    pub(crate) fn begin(&self, permit: usize) -> usize {
        let mut sleepers = lock(&self.sleepers);
        let thread = sleepers.permits.admit(Some(permit));
        self.count_records(&sleepers);
        thread
    }

    /// Takes a record for a thread that runs the remaining work of a stopped host.
    pub(crate) fn begin_last(&self) -> usize {
        let mut sleepers = lock(&self.sleepers);
        let thread = sleepers.permits.admit(None);
        self.count_records(&sleepers);
        thread
    }

    /// Notes that the thread has been started, without a permit.
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

    /// B1: `thread` has blocked, and takes the permit of a sleeper. If no thread sleeps it joins the queue, or with
    /// `or_detached` continues without a permit.
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
        sleepers.permits.go_without(thread, false);
        Resumption::Detached
    }

    /// Takes the last sleeper off the list; it counts as searching if `as_searcher` says so.
    pub(crate) fn take_sleeper(&self, sleepers: &mut Sleepers, as_searcher: u32) -> Option<usize> {
        let sleeper = sleepers.list.pop()?;
        sleepers.rises += 1;
        let mut change = as_searcher.wrapping_sub(SLEEPING);
        if sleepers.poller == Some(sleeper) {
            sleepers.poller = None;
            change = change.wrapping_sub(POLLER);
        }
        self.counts.fetch_add(change, Ordering::SeqCst);
        Some(sleeper)
    }

    /// A3: a thread has been called.
    pub(crate) fn attend(&self, thread: usize) -> Attended {
        let mut sleepers = lock(&self.sleepers);
        let permits = &mut sleepers.permits;
        match permits.at(thread) {
            // It runs what is left in its queues, and then ends.
            At::Up(_) | At::Detached if permits.stopped => Attended::GoesOn,
            At::Up(_) => match permits.pass_to_waiting(thread, At::Spare) {
                Some(next) => {
                    permits.become_spare(thread);
                    Attended::Spare(Some(next))
                }
                None => Attended::GoesOn,
            },
            At::Detached => {
                permits.become_spare(thread);
                Attended::Spare(None)
            }
            // It has just been started.
            _ => Attended::Spare(None),
        }
    }

    /// Returns what a parked or spare thread does now. The poller's sleep has its own end.
    #[inline]
    pub(crate) fn look(&self, thread: usize, poller: bool) -> RestOutcome {
        let mut sleepers = lock(&self.sleepers);
        let permits = &mut sleepers.permits;
        match permits.at(thread) {
            At::Up(permit) => RestOutcome::Up(permit, permits.take_behind(thread)),
            _ if permits.stopped => RestOutcome::Ended,
            At::Asleep(_) => {
                let spare = permits.has_spare();
                permits.note_timed(thread, spare && !poller);
                RestOutcome::Asleep(spare)
            }
            _ => RestOutcome::Spare(permits.has_surplus()),
        }
    }

    /// Returns the permit that a waiting thread has got; `None` inside while it has to wait.
    pub(crate) fn served(&self, thread: usize) -> Option<Resumption> {
        let sleepers = lock(&self.sleepers);
        match sleepers.permits.at(thread) {
            At::Waiting => None,
            At::Up(permit) => Some(Resumption::With(permit, None)),
            _ => Some(Resumption::Detached),
        }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        lock(&self.sleepers).permits.is_wanted()
    }

    /// Ends a spare thread. Returns whether it may end.
    pub(crate) fn retire(&self, thread: usize) -> bool {
        lock(&self.sleepers).permits.retire(thread)
    }

    /// Stops the host: no thread waits for anything any more. Returns all threads, to be woken.
    #[must_use = "the threads must be woken"]
    pub(crate) fn stop(&self) -> Vec<usize> {
        let mut sleepers = lock(&self.sleepers);
        sleepers.permits.stopped = true;
        while let Some(sleeper) = self.take_sleeper(&mut sleepers, SEARCHING) {
            sleepers.permits.end_sleep(sleeper);
        }
        sleepers.permits.detach_waiting();
        sleepers.permits.those(|at| at != At::Free).collect()
    }
}
