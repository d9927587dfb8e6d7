//! The sleep protocol: which threads sleep, which search, and which are woken.
//!
//! # Words
//!
//! A thread with a permit is *running* (in a step, or taking work from its own queues), *searching* (looking in the
//! queues of others) or *sleeping*. Threads without a permit are the subject of `handoff`; they are not counted here.
//! One word counts the searching and the sleeping threads; a list under a lock names the sleeping ones. The list and
//! the count of sleepers change together, under the lock; the count of searchers may also change without the lock.
//!
//! # Steps
//!
//! A thread that makes work visible (a push to any queue but a run-next slot):
//! * P1 pushes; P2 executes a fence; P3 reads the counts: if no thread sleeps, or a thread searches, it is done.
//! * P4 under the lock, if still no thread searches, takes the last sleeper off the list and counts it as searching; P5
//!   wakes it.
//!
//! A thread that has found nothing:
//! * S1 under the lock, enters the list, and counts itself as sleeping and no longer as searching; S2 executes a fence;
//!   S3 looks at all queues once more. If there is work, and no thread searches, it takes itself off the list (unless
//!   another thread already has) and searches. (If a thread does search, that thread ends its search later than this,
//!   and then looks at all queues itself, by F3 or S3.)
//! * S4 parks until a thread has taken it off the list. While there are more threads than permits, it also looks from
//!   time to time whether a thread that others drive is spare, and gives it its place: the counts stay as they are.
//! * If its permit is taken from it in the meantime, or a thread waits for one at S1, it still does S3, and P3 to P5
//!   for the work that it sees (`handoff`). The same applies if a spare thread that others drive (`sched/driven`)
//!   enters the list in its place.
//!
//! A thread that finds work while searching:
//! * F1 counts itself as running; F2 executes a fence; F3 if it was the last searcher, looks at all queues, and if
//!   there is work does P3 to P5.
//!
//! # No work is missed
//!
//! Claim: after a push (P1), some thread that does not sleep will look at all queues or run the work. At P3 the pusher
//! either wakes a thread, which then searches, or has seen that no thread slept or that a thread searched. *No thread
//! slept*: every thread that later sleeps does S1 after P3 has read the counts; the fences P2 and S2 then order P1
//! before S3, which sees the work. *A thread, T, searched*: T ends its search by S1 or by F1 after P3, and the same
//! fences make S3 or F3 see the work, unless T was not the last searcher. In that case the argument holds for the last
//! searcher. Waking at most one thread per push is enough, because each thread that finds work at F3 wakes another: a
//! batch that was moved to one deque wakes as many sleepers as it can feed, one after the other.
//!
//! # Own work
//!
//! A thread that pushes to its own deque omits P2. So it may read counts from before another thread's S1, and that
//! thread's S3 may miss the push: the other thread sleeps while there is work. No work is lost, since the pusher is
//! awake and runs the processes in its deque. Only the help of another thread is lost, until the pusher pushes again
//! and reads the counts, or announces with the fence. It announces after every [`FAIR`](crate::engine::sched::find)
//! steps while its deque is not empty. Work that is stuck behind a step that does not end is announced by the
//! [`watchdog`](crate::engine::sched::watchdog) at its next tick. (The fence would cost 20 cycles for each message that
//! finds the run-next slot taken.)
//!
//! Nor does a thread announce a process that has used up its time slice, if the thread itself will run that process
//! next, or right after the one in its run-next slot. This is the case if there is no other permit, or if its deque and
//! the global queue are otherwise empty and time slices are used up here every [few
//! microseconds](crate::engine::slice::run). A thread woken for the process would come too late to help, and would then
//! move the receiver away from its senders. The same guarantees hold: the pusher looks at the global queue before it
//! sleeps (S3) or becomes spare (handoff:A3, after which handoff:A4 announces), and the watchdog announces the work
//! queued there behind a step that does not end.
//!
//! A push to a run-next slot wakes no thread: the process runs on the same core in less time than a thread takes to
//! wake. If the current step does not end, the watchdog moves the process. All these guarantees need a watchdog that is
//! awake: a thread that got its permit while the watchdog rests ends that rest first (watchdog:G1).
//!
//! # Held back
//!
//! While the limit of awake threads (`awake_limit`) is lower than the number of permits, the difference is *held back*:
//! that many sleepers stay asleep even if there is work. The number held back is part of the word with the counts, and
//! is always less than the number of permits.
//! * P3, F3: if no more threads sleep than are held back, the pusher is done.
//! * S3: if no more threads sleep than are held back, counting the one that performs S3, that thread parks.
//! * If fewer threads sleep than are held back, a thread that looks for work takes only from its own queues, including
//!   those that others may take from, and so goes to sleep when they are empty.
//!
//! *Nothing is lost*: all changes of the word are ordered. At each point in that order at which no more threads sleep
//! than are held back, at least one thread is awake, since fewer are held back than there are permits. The first S1 by
//! which more threads sleep than are held back is followed by a complete S3. So a push whose P3 came before that S1 is
//! seen by that S3, and a push whose P3 comes after that S1 wakes a thread. Until there is such an S1, a thread is
//! awake, that is, in a step or between two steps, and visits all queues. Only the help of another thread is lost. If
//! work is queued behind a step that does not end, or a process has waited for a tick, the watchdog ends the limit and
//! announces queued work (watchdog:K1, watchdog:K2).
//!
//! # The poller
//!
//! While timers are pending, one sleeper, the *poller*, parks only until the next timer is due. There is at most one
//! poller, and it is the last sleeper to be woken for work. A thread that goes to sleep while timers are pending
//! becomes the poller if there is none. A thread that sets an earlier timer wakes the poller, or a sleeper if there is
//! no poller. A thread that has entered the list and then finds timers pending and no poller leaves the list again
//! (with the same two fences as for work). When the poller leaves the list, no other sleeper takes over the timers. So
//! at F3 the last searcher looks not only for work, but also for pending timers without a poller, and wakes a sleeper
//! for either.
//!
//! Source: Go's `proc.go` (which thread wakes which), rayon-core's sleep README (the form of the argument). Rejected:
//! waking a thread for each push (a wake costs 30 to 40 µs of a thread's time); handing the work to the sleeper itself
//! (Go tried that: it loses locality, and threads thrash). A model is in `tests/models`.

use super::holders::{At, Permits};
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, CachePadded, Mutex, Ordering, fence, lock};
use crate::thread_cache::tokens::KeepsNothing;

/// Maximum number of permits of one host; the counts below have 12 bits each.
pub(crate) const MAX_WORKERS: usize = 1 << 10;

pub(crate) const SLEEPING: u64 = 1;
pub(crate) const SEARCHING: u64 = 1 << 12;
/// The unit of the number of sleepers that are held back. Changed under the lock.
const HELD: u64 = 1 << 24;
const FIELD: u64 = (1 << 12) - 1;
/// Set while there is a poller. Changed under the lock.
pub(crate) const POLLER: u64 = 1 << 63;

pub(crate) struct Idle {
    pub(crate) counts: CachePadded<AtomicU64>,
    permits: usize,
    pub(crate) sleepers: Mutex<Sleepers>,
    /// One more than the index of the highest thread record in use. Written under the lock.
    pub(crate) high: AtomicUsize,
    /// Number of async steps that are queued until a thread can take their permit. Written under the lock.
    pub(crate) queued_steps: AtomicUsize,
    /// Whether the watchdog rests. Set under the lock, and cleared without it.
    watchdog_rests: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleCounts {
    pub(crate) sleeping: usize,
    /// Number of permits whose thread sleeps or searches.
    pub(crate) idle: usize,
    pub(crate) all_idle: bool,
    /// Number of times that the last awake thread has gone to sleep.
    pub(crate) lulls: u64,
}

pub(crate) struct Sleepers {
    /// The threads that sleep with a permit: the poller first, then the others in the order in which they went to
    /// sleep.
    pub(crate) list: Vec<usize>,
    pub(crate) poller: Option<usize>,
    /// Number of times that a thread has left the list.
    pub(crate) rises: u64,
    /// Number of times that the list has become complete, with a thread for each permit.
    lulls: u64,
    pub(crate) permits: Permits,
}

/// Shows that the thread has become spare. Contains the waiting thread that it gave its permit to, if it did; that
/// thread must be woken.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the thread that got its permit must be woken"]
pub(crate) struct BecameSpare(pub(crate) Option<usize>);

#[derive(Clone, Copy)]
struct SleepWord(u64);

impl SleepWord {
    fn sleeping(self) -> usize {
        (self.0 & FIELD) as usize
    }

    /// Returns how many sleepers are held back: see *Held back* above.
    fn held(self) -> usize {
        ((self.0 / HELD) & FIELD) as usize
    }

    /// Returns whether new work should wake a thread.
    #[inline(always)]
    fn wakes(self) -> bool {
        self.sleeping() > self.held() && self.searching() == 0
    }

    fn searching(self) -> usize {
        ((self.0 / SEARCHING) & FIELD) as usize
    }

    fn has_poller(self) -> bool {
        self.0 & POLLER != 0
    }
}

impl Idle {
    #[inline]
    fn count(&self, order: Ordering) -> SleepWord {
        SleepWord(self.counts.load(order))
    }

    pub(crate) fn new(permits: usize, threads: usize) -> Self {
        Self {
            counts: CachePadded::new(AtomicU64::new(0)),
            permits,
            sleepers: Mutex::new(Sleepers {
                list: Vec::with_capacity(permits),
                poller: None,
                rises: 0,
                lulls: 0,
                permits: Permits::new(permits, threads),
            }),
            high: AtomicUsize::new(0),
            watchdog_rests: AtomicBool::new(false),
            queued_steps: AtomicUsize::new(0),
        }
    }

    /// Resets the state for a new host, provided that there are no threads. Returns whether the state was reset.
    pub(crate) fn renew(&self) -> bool {
        let mut sleepers = lock(&self.sleepers);
        if !sleepers.permits.is_empty() {
            return false;
        }
        sleepers.list.clear();
        (sleepers.poller, sleepers.lulls) = (None, 0);
        sleepers.permits.renew();
        self.counts.store(0, Ordering::SeqCst);
        self.watchdog_rests.store(false, Ordering::SeqCst);
        true
    }

    #[inline]
    pub(crate) fn high(&self) -> usize {
        self.high.load(Ordering::SeqCst)
    }

    /// Performs P2 to P4 after a push. Returns the thread that the caller must wake, if any.
    #[inline]
    #[must_use = "the thread must be woken"]
    pub(crate) fn announce(&self) -> Option<usize> {
        fence(Ordering::SeqCst);
        self.wake_for(self.count(Ordering::SeqCst))
    }

    /// Performs P3 and P4, without the fence, after the calling thread has pushed to its own deque: see *Own work*
    /// above.
    #[inline]
    #[must_use = "the thread must be woken"]
    pub(crate) fn announce_own(&self) -> Option<usize> {
        self.wake_for(self.count(Ordering::Relaxed))
    }

    #[inline(always)]
    fn wake_for(&self, seen: SleepWord) -> Option<usize> {
        if seen.wakes() { self.wake_sleeper(true) } else { None }
    }

    /// Takes the last sleeper off the list. With `alone`, does so only if work should still wake a thread
    /// ([`SleepWord::wakes`]).
    #[cold]
    fn wake_sleeper(&self, alone: bool) -> Option<usize> {
        let mut sleepers = lock(&self.sleepers);
        if alone && !self.count(Ordering::SeqCst).wakes() {
            return None;
        }
        let thread = self.take_sleeper(&mut sleepers, SEARCHING)?;
        sleepers.permits.end_sleep(thread);
        Some(thread)
    }

    /// Returns the thread to wake, if any, after a timer has been set that is due before all others.
    #[must_use = "the thread must be woken"]
    pub(crate) fn timer_set(&self) -> Option<usize> {
        fence(Ordering::SeqCst);
        if let Some(poller) = lock(&self.sleepers).poller {
            return Some(poller);
        }
        if self.count(Ordering::SeqCst).sleeping() > 0 { self.wake_sleeper(false) } else { None }
    }

    /// Counts a running thread as searching and returns true, unless half of the threads already search, since more
    /// would only collide.
    pub(crate) fn start_searching(&self) -> bool {
        let counts = self.count(Ordering::SeqCst);
        if 2 * counts.searching() >= self.permits {
            return false;
        }
        self.counts.fetch_add(SEARCHING, Ordering::SeqCst);
        true
    }

    /// Performs F1 and F2 for a searching thread that has found work. Returns whether it was the last searcher.
    #[inline]
    pub(crate) fn stop_searching(&self) -> bool {
        let before = SleepWord(self.counts.fetch_sub(SEARCHING, Ordering::SeqCst));
        fence(Ordering::SeqCst);
        before.searching() == 1
    }

    #[inline]
    pub(crate) fn has_poller(&self) -> bool {
        self.count(Ordering::SeqCst).has_poller()
    }

    pub(crate) fn is_anyone_searching(&self) -> bool {
        self.count(Ordering::SeqCst).searching() > 0
    }

    /// Returns whether a sleeping thread should wake for work that it sees (S3).
    pub(crate) fn wakes_for_work(&self) -> bool {
        self.count(Ordering::SeqCst).wakes()
    }

    /// Returns whether more threads are awake than the limit allows.
    pub(crate) fn are_too_many_awake(&self) -> bool {
        let counts = self.count(Ordering::Relaxed);
        counts.sleeping() < counts.held()
    }

    /// Sets the limit of awake threads to `awake`, or to 1 if `awake` is 0: from now on, work wakes no thread while
    /// that many are awake. Called by the watchdog, which then announces queued work.
    pub(crate) fn limit_awake(&self, awake: usize) {
        let held = self.permits.saturating_sub(awake.max(1));
        if self.count(Ordering::Relaxed).held() != held {
            let sleepers = lock(&self.sleepers);
            if sleepers.permits.stopped {
                return;
            }
            let change = (held as u64).wrapping_sub(self.count(Ordering::Relaxed).held() as u64);
            self.counts.fetch_add(change.wrapping_mul(HELD), Ordering::SeqCst);
        }
    }

    /// Ends the limit, since the threads of a host that stops look everywhere before they end. Must be called under the
    /// lock.
    pub(super) fn end_limit(&self) {
        let held = self.count(Ordering::Relaxed).held() as u64;
        self.counts.fetch_sub(held * HELD, Ordering::SeqCst);
    }

    /// Returns how many threads may be awake for work.
    pub(crate) fn awake_limit(&self) -> usize {
        self.permits - self.count(Ordering::Relaxed).held()
    }

    pub(crate) fn is_another_awake(&self) -> bool {
        self.count(Ordering::SeqCst).sleeping() + 1 < self.permits
    }

    /// Performs S1 and S2, and returns whether the thread is the poller. If another thread waits for a permit, or this
    /// one has lost its own, it becomes spare instead.
    pub(crate) fn begin_sleep(
        &self,
        thread: usize,
        searched: bool,
        timers: bool,
        _: KeepsNothing,
    ) -> Result<bool, BecameSpare> {
        let searching = if searched { SEARCHING } else { 0 };
        let mut sleepers = lock(&self.sleepers);
        let given = sleepers.permits.pass_to_waiting(thread, At::Detached);
        let driven = sleepers.permits.pass_to_driven(thread);
        if let Some(driven) = driven {
            sleepers.list.push(driven);
            self.counts.fetch_add(SLEEPING, Ordering::SeqCst);
        }
        let result = match sleepers.permits.at(thread) {
            At::Up(permit) => {
                sleepers.permits.begin_sleep(thread, permit);
                let mut change = SLEEPING.wrapping_sub(searching);
                let poller = sleepers.poller.is_none() && timers;
                if poller {
                    sleepers.poller = Some(thread);
                    sleepers.list.insert(0, thread);
                    change = change.wrapping_add(POLLER);
                } else {
                    sleepers.list.push(thread);
                }
                self.counts.fetch_add(change, Ordering::SeqCst);
                Ok(poller)
            }
            _ => {
                sleepers.permits.become_spare(thread);
                self.counts.fetch_sub(searching, Ordering::SeqCst);
                Err(BecameSpare(given))
            }
        };
        let enters = result.is_ok() || driven.is_some();
        sleepers.lulls += u64::from(enters && sleepers.list.len() == self.permits);
        drop(sleepers);
        fence(Ordering::SeqCst);
        result
    }

    /// Ends the sleep of a thread that has found work: it counts as searching from now on, whichever thread took it off
    /// the list. Returns false if it has lost its permit.
    pub(crate) fn end_sleep(&self, thread: usize) -> bool {
        let mut sleepers = lock(&self.sleepers);
        let Some(place) = sleepers.list.iter().position(|&sleeper| sleeper == thread) else {
            return sleepers.permits.permit(thread).is_some();
        };
        self.take_off(&mut sleepers, place, SEARCHING);
        sleepers.permits.end_sleep(thread);
        true
    }

    pub(crate) fn at(&self, thread: usize) -> At {
        self.with_permits(|permits| permits.at(thread))
    }

    /// Runs `body` under the lock, to read or update the states of threads. No thread can park while it runs.
    pub(crate) fn with_permits<R>(&self, body: impl FnOnce(&mut Permits) -> R) -> R {
        body(&mut lock(&self.sleepers).permits)
    }

    /// Writes the states of all threads to `places`, and returns the counts of idle permits. Called by the watchdog.
    pub(crate) fn sample(&self, places: &mut Vec<At>) -> IdleCounts {
        let sleepers = lock(&self.sleepers);
        places.clear();
        places.extend(sleepers.permits.places());
        let sleeping = sleepers.list.len();
        let searching = self.count(Ordering::SeqCst).searching();
        IdleCounts { sleeping, idle: sleeping + searching, all_idle: sleeping == self.permits, lulls: sleepers.lulls }
    }

    /// Performs watchdog:R1. Returns whether all permits are idle, in which case the watchdog rests.
    pub(crate) fn rest_watchdog(&self) -> bool {
        let sleepers = lock(&self.sleepers);
        let rests = sleepers.list.len() == self.permits;
        self.watchdog_rests.store(rests, Ordering::Relaxed);
        rests
    }

    /// Returns whether the watchdog rests. The result is current for a thread that has got a permit since the rest
    /// began, because both took the lock. It is also current for a thread that has seen in the counts that such a
    /// thread is awake.
    #[inline]
    pub(crate) fn does_watchdog_rest(&self) -> bool {
        self.watchdog_rests.load(Ordering::Relaxed)
    }

    /// Ends the watchdog's rest (watchdog:G1 to watchdog:G5). Returns whether it rested, in which case it must be
    /// woken.
    #[must_use = "the watchdog must be woken"]
    pub(crate) fn end_watchdog_rest(&self) -> bool {
        self.watchdog_rests.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn rises(&self) -> u64 {
        lock(&self.sleepers).rises
    }

    /// Returns how many times threads have left the list, or `None` if the list does not have a thread for each permit.
    /// If two calls return the same number, all threads slept the whole time in between.
    pub(crate) fn all_asleep(&self) -> Option<u64> {
        let sleepers = lock(&self.sleepers);
        (sleepers.list.len() == self.permits).then_some(sleepers.rises)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::handoff::RestOutcome;
    use super::super::holders::HandedOff;
    use super::*;

    #[test]
    fn a_host_that_stops_holds_no_thread_back() {
        let idle = Idle::new(4, 8);
        idle.limit_awake(1);
        assert!(idle.are_too_many_awake());
        let _none_sleeps = idle.stop();
        assert!(!idle.are_too_many_awake());
        // The watchdog may set its limit after the stop.
        idle.limit_awake(1);
        assert_eq!((idle.are_too_many_awake(), idle.awake_limit()), (false, 4));
    }

    /// Catches: a thread that keeps the permit of a driven thread, so that a thread is woken for each call from then
    /// on.
    #[test]
    fn the_permit_of_a_driven_thread_returns_to_it_before_the_holder_sleeps_or_while_it_sleeps() {
        for holder_sleeps_first in [false, true] {
            let idle = Idle::new(1, 4);
            let driven = idle.begin(Some(0));
            idle.with_permits(|permits| permits.set_driven(driven));
            let holder = idle.begin(None);
            idle.started(holder);
            assert_eq!(idle.take_over(driven, || true), HandedOff::ToSpare(holder));

            let sleep = || idle.begin_sleep(holder, true, false, KeepsNothing::without_tokens());
            let end_step = || idle.yield_permit(driven, KeepsNothing::without_tokens());
            if holder_sleeps_first {
                assert_eq!(sleep(), Ok(false));
                assert_eq!(end_step(), Some(BecameSpare(Some(holder))));
            } else {
                assert_eq!(end_step(), Some(BecameSpare(None)));
                assert_eq!(sleep(), Err(BecameSpare(None)));
            }
            assert_eq!((idle.at(driven), idle.at(holder)), (At::Asleep(0), At::Spare));
            assert_eq!(idle.announce(), Some(driven));
        }
    }

    /// A driven thread also becomes spare when it passes its permit to one that waits, or when one that comes back
    /// takes the permit from it while it sleeps.
    #[test]
    fn a_sleeper_gives_its_place_to_a_driven_thread_that_has_become_spare_in_whatever_way() {
        for is_poller in [false, true] {
            let idle = Idle::new(1, 4);
            let driven = idle.begin(Some(0));
            idle.with_permits(|permits| permits.set_driven(driven));
            let holder = idle.begin(None);
            idle.started(holder);
            assert_eq!(idle.take_over(driven, || true), HandedOff::ToSpare(holder));
            assert_eq!(idle.begin_sleep(holder, true, is_poller, KeepsNothing::without_tokens()), Ok(is_poller));
            idle.with_permits(|permits| permits.become_spare(driven));

            let looks = idle.look(holder, is_poller);
            let (next, states) = if is_poller {
                // It waits for a timer.
                assert!(matches!(looks, RestOutcome::Asleep(true)), "{looks:?}");
                (holder, (At::Spare, At::Asleep(0)))
            } else {
                assert!(matches!(looks, RestOutcome::Spare(_)), "{looks:?}");
                (driven, (At::Asleep(0), At::Spare))
            };
            assert_eq!((idle.at(driven), idle.at(holder)), states);
            assert_eq!(idle.announce(), Some(next));
        }
    }
}
