//! Admission of processes and visitors to a host, and waiting until all have left.
//!
//! Processes enter and leave at the rate of spawns, so they share no cache line: each permit, and all other threads
//! together, have a tally of their own. Closing needs no lock on the way in:
//!
//! * C1 count oneself as entered; C2 check whether the gate is closed: if so, count oneself as left and turn back.
//! * C3 count oneself as left; C4 check whether the gate is closed: if so, wake the waiting thread.
//! * C5 close the gate; C6 add up all that left, *then* all that entered; equal means that none is inside.
//!
//! A thread that C2 admits was counted before C6 looks (all are sequentially consistent: C1 precedes C2, that precedes
//! C5, and that precedes C6), so C6 counts it. Adding up `left` first overlooks none: one that leaves between the two
//! sums was counted as entered by the second. And the last to leave either sees the gate closed at C4 and wakes the
//! waiter, or C3 preceded C6. The waiter holds the lock while it adds up, and the waker takes it, so the wake cannot
//! fall between the sum and the wait.
//!
//! A snapshot of the number inside, while they come and go, must not exceed the truth: one that enters after the sum of
//! those that left, and leaves before the sum of those that entered, is counted by the second alone. So
//! [`Gate::snapshot`] adds up in the opposite order, and repeats until two snapshots agree.
//!
//! Two threads may count in one tally: one that has a permit, and one that had it and is still in its step (`handoff`).
//! So counting is an atomic addition, which costs no more than the fence that a plain store would need.
//!
//! A model is in `tests/models`.

use crate::env::clock::instant_now;
use crate::sync::{
    AtomicBool, AtomicU64, CachePadded, Condvar, Mutex, Ordering, fence, fence_for_models, lock, wait, wait_for,
};
use std::time::{Duration, Instant};

/// How often the tallies are read, at most, for an exact count. A guess: one reading costs as much as a spawn.
const LOOKS: usize = if cfg!(loom) { 2 } else { 32 };

pub(crate) struct Gate {
    closed: AtomicBool,
    /// How many had entered, and left, when it was opened.
    before: AtomicU64,
    tallies: Box<[CachePadded<Tally>]>,
    /// Locked by the waiting thread and by those that wake it.
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
            tallies: (0..=permits).map(|_| tally()).collect(),
            waiting: Mutex::new(()),
            left: Condvar::new(),
        }
    }

    /// Counts in the tally of that permit, which few threads share, or in that of all threads without one.
    fn count(&self, permit: Option<usize>, which: impl Fn(&Tally) -> &AtomicU64) {
        let tally = permit.unwrap_or(self.tallies.len() - 1);
        which(&self.tallies[tally]).fetch_add(1, Ordering::SeqCst);
        fence_for_models();
    }

    /// C1 and C2: enters. The thread must leave later.
    #[must_use = "who came in must leave"]
    pub(crate) fn enter(&self, permit: Option<usize>) -> bool {
        self.count(permit, |tally| &tally.entered);
        let open = !self.is_closed();
        if !open {
            self.leave(permit);
        }
        open
    }

    /// C3 and C4: leaves.
    pub(crate) fn leave(&self, permit: Option<usize>) {
        self.count(permit, |tally| &tally.left);
        if self.is_closed() {
            let _waiting = lock(&self.waiting);
            self.left.notify_all();
        }
    }

    /// Opens it again, after all have left. Threads that are about to turn back may find it open: they compare the
    /// generation of the host (`reuse`).
    pub(crate) fn reopen(&self) {
        self.before.store(self.totals().1, Ordering::SeqCst);
        self.closed.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// C5: closes it. Returns whether it was open. The caller sees what those inside had done before.
    pub(crate) fn close(&self) -> bool {
        let was_open = !self.closed.swap(true, Ordering::SeqCst);
        fence_for_models();
        // Reading their tallies makes it visible.
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

    /// Returns how many had entered since it was opened, and how many of them had left, as of one moment. If the
    /// tallies change during each of [`LOOKS`] readings, the difference is a lower bound at some moment.
    ///
    /// Tallies only grow. If two readings give the same sums, no tally has changed between its places in them, and all
    /// had these values between the two readings. A single reading reads who entered first: all of those had entered
    /// when it reads who left, so the difference is no more than the number inside at that moment.
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

    /// Reads first who entered, then who left; the latter at most as many, though some may have entered later.
    fn look(&self) -> (u64, u64) {
        let entered = self.tallies.iter().map(|tally| tally.entered.load(Ordering::SeqCst)).sum::<u64>();
        fence(Ordering::SeqCst);
        let left = self.tallies.iter().map(|tally| tally.left.load(Ordering::SeqCst)).sum::<u64>();
        (entered, left.min(entered))
    }

    /// Returns an upper bound of the number inside.
    pub(crate) fn inside(&self) -> u64 {
        let (entered, left) = self.totals();
        entered.saturating_sub(left)
    }

    /// C6: waits until at most `most` are inside. Returns whether that happened before `deadline`, if there is one.
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
