//! Admission of processes and visitors to a host, and waiting until all have left.
//!
//! Processes enter and leave at the rate of spawns. So each thread of the host has a tally of its own. Only that thread
//! writes it, without an atomic exchange. All other threads share one tally. Entering takes no lock:
//!
//! * C1 count oneself as entered, and execute the light barrier; C2 check whether the gate is closed: if so, count
//!   oneself as left and turn back.
//! * C3 count oneself as left, and execute the light barrier; C4 check whether the gate is closed: if so, wake the
//!   waiting thread.
//! * C5 close the gate, and execute the heavy barrier; C6 add up all that left, *then* all that entered; equal sums
//!   mean that none is inside.
//!
//! Because of the barriers, either C2 finds the gate closed, or everything that its thread did before, C1 included, is
//! visible from the end of C5 on. So C6 counts each thread that C2 admits. Adding up `left` first overlooks none: a
//! thread that leaves between the two sums is counted as entered by the second, since C1 happens before C3 and C6
//! acquires. In the same way, the last to leave either finds the gate closed at C4 and wakes the waiter, or C6 counts
//! it as left. The waiter holds the lock while it adds up, and the waker takes it, so the wake cannot fall between the
//! sum and the wait.
//!
//! If several leave at once, each checks afterwards whether it was the last (`shutdown`), and one must find that it
//! was. C5 holds the lock that C4 takes. So a thread that has passed C4 with the gate closed sees C3 of all that passed
//! C4 before it, and of all that found the gate open, since the heavy barrier has completed by then. If all found the
//! gate open, the thread that closes it sees that none is inside.
//!
//! A snapshot of the number inside, taken while processes come and go, must not exceed the true number. In the order of
//! C6, a process that enters after the first sum and leaves before the second would be counted by the second alone. So
//! [`Gate::snapshot`] adds up in the opposite order, and repeats until two snapshots agree.
//!
//! A tally belongs to a thread, not to a permit: a thread may have lost its permit and still be in its step
//! (`handoff`). When a thread has ended, another one may get its number, and with it its tally, under the lock of
//! `sleep`. The first threads, as many as there are permits plus [`OWN`], have tallies of their own; the others share
//! the tally of outside threads.
//!
//! A model is in `tests/models`.

use crate::env::clock::instant_now;
use crate::sync::{
    AtomicBool, AtomicU64, CachePadded, Condvar, Mutex, Ordering, checked_light_barrier, fence, heavy_barrier, lock,
    wait, wait_for,
};
use std::time::{Duration, Instant};

/// Maximum number of times that the tallies are read for an exact count. A guess: one reading costs as much as a spawn.
const LOOKS: usize = if cfg!(loom) { 2 } else { 32 };

/// Number of threads, besides those with permits, that have a tally of their own. A guess: as many as block at once in
/// most programs.
const OWN: usize = if cfg!(loom) { 0 } else { 8 };

pub(crate) struct Gate {
    closed: AtomicBool,
    /// Number of entries before the gate was last opened; all of them had left.
    before: AtomicU64,
    /// A tally for each of the first threads, by number, and a last one for all others.
    tallies: Box<[CachePadded<Tally>]>,
    /// Locked by the thread that closes the gate, the waiting thread and those that wake it.
    waiting: Mutex<()>,
    left: Condvar,
}

struct Tally {
    entered: AtomicU64,
    left: AtomicU64,
}

impl Gate {
    pub(crate) fn new(permits: usize) -> Self {
        let tally = || CachePadded::new(Tally { entered: AtomicU64::new(0), left: AtomicU64::new(0) });
        Self {
            closed: AtomicBool::new(false),
            before: AtomicU64::new(0),
            tallies: (0..=permits + OWN).map(|_| tally()).collect(),
            waiting: Mutex::new(()),
            left: Condvar::new(),
        }
    }

    /// Adds one to a count of the calling thread, in the tally with its number or in the shared one, and executes the
    /// light barrier.
    #[inline]
    fn count(&self, thread: Option<usize>, which: impl Fn(&Tally) -> &AtomicU64) {
        let shared = self.tallies.len() - 1;
        match thread.filter(|&thread| thread < shared) {
            Some(own) => {
                let count = which(&self.tallies[own]);
                count.store(count.load(Ordering::Relaxed) + 1, Ordering::Release);
            }
            None => _ = which(&self.tallies[shared]).fetch_add(1, Ordering::Release),
        }
        checked_light_barrier();
    }

    /// Performs C1 and C2. Returns whether the caller has entered, in which case it must leave later.
    #[must_use = "who came in must leave"]
    #[inline]
    pub(crate) fn enter(&self, thread: Option<usize>) -> bool {
        self.count(thread, |tally| &tally.entered);
        let open = !self.is_closed();
        if !open {
            self.turn_back(thread);
        }
        open
    }

    #[cold]
    #[inline(never)]
    fn turn_back(&self, thread: Option<usize>) {
        self.leave(thread);
    }

    /// Performs C3 and C4: leaves.
    #[inline]
    pub(crate) fn leave(&self, thread: Option<usize>) {
        self.count(thread, |tally| &tally.left);
        if self.is_closed() {
            self.wake_waiting();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_waiting(&self) {
        let _waiting = lock(&self.waiting);
        self.left.notify_all();
    }

    /// Opens the gate again, after all have left. A thread that was about to turn back may find it open, so each thread
    /// also compares the generation of the host (`reuse`).
    pub(crate) fn reopen(&self) {
        self.before.store(self.totals().1, Ordering::SeqCst);
        self.closed.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Performs C5: closes the gate. Returns whether it was open. The caller sees everything that those inside did
    /// before.
    pub(crate) fn close(&self) -> bool {
        let closing = lock(&self.waiting);
        let was_open = !self.closed.swap(true, Ordering::SeqCst);
        heavy_barrier();
        drop(closing);
        // Reading the tallies makes visible what the threads that wrote them did before.
        let _seen = self.totals();
        was_open
    }

    /// Returns how many have entered, and how many of them have left. Once the gate is closed the difference is exact,
    /// except for latecomers that have not turned back yet.
    fn totals(&self) -> (u64, u64) {
        let left = self.tallies.iter().map(|tally| tally.left.load(Ordering::SeqCst)).sum();
        fence(Ordering::SeqCst);
        let entered = self.tallies.iter().map(|tally| tally.entered.load(Ordering::SeqCst)).sum();
        (entered, left)
    }

    /// Returns how many had entered since the gate was opened, and how many of them had left, at a single moment. If
    /// the tallies change during each of [`LOOKS`] readings, the difference is a lower bound on the number inside at
    /// some moment.
    ///
    /// Tallies only grow. If two readings give the same sums, no tally has changed between its first reading and its
    /// second, so all had these values between the two readings. A single reading adds up `entered` first: all threads
    /// in that sum had entered before the reading adds up `left`, so the difference is no more than the number inside
    /// at that moment.
    pub(crate) fn snapshot(&self) -> (u64, u64) {
        let mut last = self.look();
        let mut most = last;
        for _ in 1..LOOKS {
            let look = self.look();
            if look == last {
                most = look;
                break;
            }
            if look.0 - look.1 > most.0 - most.1 {
                most = look;
            }
            last = look;
        }
        let before = self.before.load(Ordering::SeqCst);
        (most.0.saturating_sub(before), most.1.saturating_sub(before))
    }

    /// Reads `entered` first, then `left`. The latter may include threads that entered later, and is capped at the
    /// former.
    fn look(&self) -> (u64, u64) {
        let entered = self.tallies.iter().map(|tally| tally.entered.load(Ordering::SeqCst)).sum::<u64>();
        fence(Ordering::SeqCst);
        let left = self.tallies.iter().map(|tally| tally.left.load(Ordering::SeqCst)).sum::<u64>();
        (entered, left.min(entered))
    }

    /// Returns an upper bound on the number inside.
    pub(crate) fn inside(&self) -> u64 {
        let (entered, left) = self.totals();
        entered.saturating_sub(left)
    }

    /// Performs C6: waits until at most `most` are inside. Returns whether that happened before `deadline`, if there is
    /// one.
    pub(crate) fn wait_until_at_most(&self, most: u64, deadline: Option<Instant>) -> bool {
        let mut waiting = lock(&self.waiting);
        loop {
            if self.inside() <= most {
                return true;
            }
            let rest = deadline.map(|deadline| deadline.saturating_duration_since(instant_now()));
            waiting = match rest {
                Some(Duration::ZERO) => return false,
                Some(rest) => wait_for(&self.left, waiting, rest),
                None => wait(&self.left, waiting),
            };
        }
    }
}
