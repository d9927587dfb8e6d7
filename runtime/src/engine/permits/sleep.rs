//! Who sleeps, who searches, and who is to be woken: the sleep protocol.
//!
//! # Words
//!
//! A thread with a permit is *running* (in a step, or taking work from its own queues), *searching* (looking in the
//! queues of others) or *sleeping*. Those without a permit are `handoff`'s; they are not counted here. One word counts
//! the searching and the sleeping; a list under a lock names the sleeping. The list and the count of the sleeping
//! change together, under the lock; the count of the searching may also change without it.
//!
//! # Steps
//!
//! A thread that makes work visible (a push to any queue but a run-next slot):
//! * P1 pushes; P2 fence; P3 looks at the counts: if no thread sleeps, or a thread searches, it is done.
//! * P4 under the lock, if still no thread searches, takes the last sleeper off the list and counts it as searching; P5
//!   wakes it.
//!
//! A thread that has found nothing:
//! * S1 under the lock, enters the list and counts itself as sleeping, and no more as searching; S2 fence; S3 looks at
//!   all queues once more. If there is work, and no thread searches, it takes itself off the list (or finds that a
//!   thread has) and searches. (Who searches then ends its search after this look, and looks itself, by F3 or S3.)
//! * S4 parks until a thread has taken it off the list.
//! * If its permit is taken from it meanwhile, or a thread waits for one at S1, it still does S3, and does as P3 to P5
//!   for what it sees (`handoff`).
//!
//! A thread that finds work while searching:
//! * F1 counts itself as running; F2 fence; F3 if it was the last searcher, looks at all queues, and if there is work
//!   does as P3 to P5.
//!
//! # No work is missed
//!
//! Claim: after a push (P1), some thread that does not sleep will look at all queues, or runs the work. At P3 the
//! pusher either wakes a thread, which then searches, or it has seen that no thread slept or that a thread searched.
//! *No thread slept*: every thread that later sleeps does S1 after P3 has read the counts; the fences P2 and S2 then
//! order P1 before S3, which sees the work. *A thread, T, searched*: T ends its search by S1 or by F1 after P3, and the
//! same fences make S3 or F3 see the work, unless T was not the last searcher: then the last one is T for this
//! argument. Waking at most one thread for one push is enough, because each one that finds work at F3 passes the wake
//! on: a batch that was moved to one deque brings in as many sleepers as it can feed, one after the other.
//!
//! # Own work
//!
//! A thread that pushes to its own deque leaves out P2. So it may read counts from before another thread's S1, and that
//! thread's S3 may not see the push: it sleeps while there is work. Nothing is lost by that, since the pusher is awake
//! and runs what is in its deque; what is lost is help, until it pushes again and reads the counts, or until it
//! announces with the fence, which it does after every [`FAIR`](crate::engine::sched::find) steps, as long as its deque
//! is not empty. What lies behind a step that does not end meanwhile is announced by the
//! [`watchdog`](crate::engine::sched::watchdog) at its next tick. (A fence costs 20 cycles, on each message that finds
//! the run-next slot taken.)
//!
//! Nor does it announce a process that has used up its time slice, if it will run that process next itself, or right
//! after the one in its run-next slot: because there is no other permit, or because its deque and the global queue hold
//! nothing else and time slices are used up here every [few microseconds](crate::engine::slice::step). A thread that is
//! woken for it would come too late to help, and would then move the receiver away from its senders. The same
//! guarantees hold: the pusher looks at the global queue before it sleeps (S3) or becomes spare (handoff:A3, which
//! announces), and the watchdog announces what is queued there behind a step that does not end.
//!
//! A push to a run-next slot wakes no thread: the process runs on the same core in less time than a thread takes to
//! wake. Behind a step that does not end, the watchdog moves it. All these guarantees need a watchdog that is awake: a
//! thread that got its permit while the watchdog rests ends that rest first (watchdog:G1).
//!
//! # Held back
//!
//! While fewer threads than permits are to be awake (`awake_limit`), the difference of the two is *held back*: so many
//! sleepers sleep on while there is work. The number is in the word of the counts, and less than that of permits.
//! * P3, F3: if no more threads sleep than are held back, the pusher is done.
//! * S3: if no more threads sleep than are held back, this one included, it parks.
//! * If fewer threads sleep than are held back, one that looks for work takes only from its own queues, and so goes to
//!   sleep when these are empty. What others could take from it is taken.
//!
//! *Nothing is lost*: the word has an order, and in all of it at least as many threads are awake as are not held back,
//! one or more. The S1 by which more sleep than are held back is followed by the whole S3; so a push whose P3 came
//! before it is seen there, and one whose P3 comes after it wakes a thread. Until there is such an S1, a thread is
//! awake, that is in a step or between two, and visits all queues. What is lost is help: behind a step that does not
//! end, and when a process has waited for a tick, the watchdog ends the limit, and announces what is queued
//! (watchdog:K1, watchdog:K2).
//!
//! # The poller
//!
//! While timers are pending, one sleeper, the *poller*, parks only until the next one is due. There is at most one, and
//! it is the last to be woken for work. A thread that goes to sleep while timers are pending becomes the poller if
//! there is none. A thread that sets an earlier timer wakes the poller, or a sleeper if there is no poller. A thread
//! that has entered the list and then finds timers pending and no poller leaves it again (with the same two fences as
//! for work). When the poller leaves the list, the others have none; so the last searcher to end its search looks for
//! pending timers without a poller as it looks for work (F3), and wakes a sleeper for either.
//!
//! Source: Go's `proc.go` (who wakes whom), rayon-core's sleep README (the form of the argument). Rejected: waking a
//! thread for each push (a wake costs 30 to 40 µs of a thread's time); handing the work to the sleeper itself (Go
//! tried: it loses locality, and threads thrash). A model is in `tests/models`.

use super::holders::{At, Permits};
use crate::local::tokens::KeepsNothing;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, CachePadded, Mutex, Ordering, fence, lock};

/// The most permits that one host can have; the counts below have 12 bits each.
pub(crate) const MAX_WORKERS: usize = 1 << 10;

pub(crate) const SLEEPING: u64 = 1;
pub(crate) const SEARCHING: u64 = 1 << 12;
/// How many sleepers are held back. Changed under the lock.
const HELD: u64 = 1 << 24;
const FIELD: u64 = (1 << 12) - 1;
/// There is a poller. Set and cleared under the lock.
pub(crate) const POLLER: u64 = 1 << 63;

pub(crate) struct Idle {
    pub(crate) counts: CachePadded<AtomicU64>,
    permits: usize,
    pub(crate) sleepers: Mutex<Sleepers>,
    /// One more than the index of the highest thread record in use. Written under the lock.
    pub(crate) high: AtomicUsize,
    /// How many async steps are queued for a thread to block on. Written under the lock.
    pub(crate) queued_steps: AtomicUsize,
    /// Whether the watchdog sleeps until a process waits. Set under the lock.
    watchdog_rests: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleCounts {
    pub(crate) sleeping: usize,
    /// Those whose thread sleeps or searches.
    pub(crate) idle: usize,
    pub(crate) all_idle: bool,
    /// How often the last of all threads has gone to sleep.
    pub(crate) lulls: u64,
}

pub(crate) struct Sleepers {
    /// The threads that sleep with a permit: the poller first, then the others, the latest last.
    pub(crate) list: Vec<usize>,
    pub(crate) poller: Option<usize>,
    /// How often a thread has left the list.
    pub(crate) rises: u64,
    /// How often the list has become one of all permits.
    lulls: u64,
    pub(crate) permits: Permits,
}

/// A thread has become spare. If it gave its permit to a waiting thread, that must be woken.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the thread that got its permit must be woken"]
pub(crate) struct BecameSpare(pub(crate) Option<usize>);

#[derive(Clone, Copy)]
struct SleepWord(u64);

impl SleepWord {
    fn sleeping(self) -> usize {
        (self.0 & FIELD) as usize
    }

    /// See *Held back* above.
    fn held(self) -> usize {
        ((self.0 / HELD) & FIELD) as usize
    }

    /// Returns whether work is worth waking a thread.
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

    /// Resets it for a new host, if there are no threads. Returns whether there are none.
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

    /// P2 to P4, after work was pushed. Returns the thread that the caller must wake, if any.
    #[inline]
    #[must_use = "the thread must be woken"]
    pub(crate) fn announce(&self) -> Option<usize> {
        fence(Ordering::SeqCst);
        self.wake_for(self.count(Ordering::SeqCst))
    }

    /// P3 and P4 for work that the calling thread has pushed to its own deque, without the fence: it looks there again
    /// after its step, so overlooking a sleeper costs no work, only help; and it announces with the fence every so many
    /// steps. See *Own work* above.
    #[inline]
    #[must_use = "the thread must be woken"]
    pub(crate) fn announce_own(&self) -> Option<usize> {
        self.wake_for(self.count(Ordering::Relaxed))
    }

    #[inline(always)]
    fn wake_for(&self, seen: SleepWord) -> Option<usize> {
        if seen.wakes() { self.wake_sleeper(true) } else { None }
    }

    /// Takes the last sleeper off the list; with `alone`, only if no thread searches.
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

    /// Called when a timer was set that precedes all others. Returns the thread to wake for it, if any.
    #[must_use = "the thread must be woken"]
    pub(crate) fn timer_set(&self) -> Option<usize> {
        fence(Ordering::SeqCst);
        if let Some(poller) = lock(&self.sleepers).poller {
            return Some(poller);
        }
        if self.count(Ordering::SeqCst).sleeping() > 0 { self.wake_sleeper(false) } else { None }
    }

    /// Returns whether a running thread may search: at most half of the threads do, since more would only collide.
    pub(crate) fn start_searching(&self) -> bool {
        let counts = self.count(Ordering::SeqCst);
        if 2 * counts.searching() >= self.permits {
            return false;
        }
        self.counts.fetch_add(SEARCHING, Ordering::SeqCst);
        true
    }

    /// F1 and F2: a searching thread has found work. Returns whether it was the last searcher.
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

    /// Returns whether a thread that sleeps is to wake for work that it sees (sleep:S3).
    pub(crate) fn wakes_for_work(&self) -> bool {
        self.count(Ordering::SeqCst).wakes()
    }

    /// Returns whether more threads are awake than are to be.
    pub(crate) fn are_too_many_awake(&self) -> bool {
        let counts = self.count(Ordering::Relaxed);
        counts.sleeping() < counts.held()
    }

    /// From here on work wakes no thread while at least so many are awake, and at least one. For the watchdog, which
    /// then announces the work that there is.
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

    /// Ends the limit, under the lock: the threads of a host that stops look everywhere before they end.
    pub(super) fn end_limit(&self) {
        let held = self.count(Ordering::Relaxed).held() as u64;
        self.counts.fetch_sub(held * HELD, Ordering::SeqCst);
    }

    /// Returns how many threads are awake at most for the work that there is.
    pub(crate) fn awake_limit(&self) -> usize {
        self.permits - self.count(Ordering::Relaxed).held()
    }

    pub(crate) fn is_another_awake(&self) -> bool {
        self.count(Ordering::SeqCst).sleeping() + 1 < self.permits
    }

    /// S1 and S2, unless a thread waits for a permit, or this one has lost its own. Returns whether it is the poller.
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
                sleepers.lulls += u64::from(sleepers.list.len() == self.permits);
                self.counts.fetch_add(change, Ordering::SeqCst);
                Ok(poller)
            }
            _ => {
                sleepers.permits.become_spare(thread);
                self.counts.fetch_sub(searching, Ordering::SeqCst);
                Err(BecameSpare(given))
            }
        };
        drop(sleepers);
        fence(Ordering::SeqCst);
        result
    }

    /// Called by a sleeper that has found work: it counts as searching from here on, whatever took it off the list.
    /// Returns false if it has lost its permit.
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

    /// Runs `body`, which reads the states of threads, or notes something about them, under the lock: no thread can
    /// park meanwhile.
    pub(crate) fn with_permits<R>(&self, body: impl FnOnce(&mut Permits) -> R) -> R {
        body(&mut lock(&self.sleepers).permits)
    }

    /// Writes the states of all threads to `places`, and returns the idle permits. For the watchdog.
    pub(crate) fn sample(&self, places: &mut Vec<At>) -> IdleCounts {
        let sleepers = lock(&self.sleepers);
        places.clear();
        places.extend(sleepers.permits.places());
        let sleeping = sleepers.list.len();
        let searching = self.count(Ordering::SeqCst).searching();
        IdleCounts { sleeping, idle: sleeping + searching, all_idle: sleeping == self.permits, lulls: sleepers.lulls }
    }

    /// watchdog:R1. Returns whether all permits are idle; the watchdog then rests.
    pub(crate) fn rest_watchdog(&self) -> bool {
        let sleepers = lock(&self.sleepers);
        let rests = sleepers.list.len() == self.permits;
        self.watchdog_rests.store(rests, Ordering::Relaxed);
        rests
    }

    /// Returns whether the watchdog rests. Visible to a thread that has got a permit since, through the lock that both
    /// took, and to a thread that has seen that one counted.
    #[inline]
    pub(crate) fn does_watchdog_rest(&self) -> bool {
        self.watchdog_rests.load(Ordering::Relaxed)
    }

    /// watchdog:G1 to watchdog:G5: ends the watchdog's rest. Returns whether it rested, in which case it must be woken.
    #[must_use = "the watchdog must be woken"]
    pub(crate) fn end_watchdog_rest(&self) -> bool {
        self.watchdog_rests.swap(false, Ordering::SeqCst)
    }

    /// Returns how often a thread has left the list, if all are on it: between two equal numbers all slept.
    pub(crate) fn all_asleep(&self) -> Option<u64> {
        let sleepers = lock(&self.sleepers);
        (sleepers.list.len() == self.permits).then_some(sleepers.rises)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_stops_holds_no_thread_back() {
        let idle = Idle::new(4, 8);
        idle.limit_awake(1);
        assert!(idle.are_too_many_awake());
        let _none_sleeps = idle.stop();
        assert!(!idle.are_too_many_awake());
        // The watchdog may come to it late.
        idle.limit_awake(1);
        assert_eq!((idle.are_too_many_awake(), idle.awake_limit()), (false, 4));
    }
}
