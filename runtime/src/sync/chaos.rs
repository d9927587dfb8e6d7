//! Random sleeps at the places where threads interact, inserted by the feature `chaos` for the runtime's own tests.
//! They widen a window of a few instructions, which a test would hit once in a million runs, to milliseconds.
//!
//! The places are before and after a lock, before a park or a wait, around an unpark, a fence and an exchange of a
//! pointer, at the start of a thread, and around each step of a process. `POSTROOM_CHAOS_SEED` enables the sleeps, and
//! `POSTROOM_CHAOS_MS` limits their total over all threads of the program. Each thread draws from the seed and its own
//! number. So runs with the same seed sleep at similar places, but not at exactly the same ones, since these also
//! depend on the kernel.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{self, AtomicU64, Ordering};
use std::time::Duration;

/// Average number of places that a thread passes between two sleeps, at first. This interval then grows, so that both
/// short and long tests are disturbed.
const FIRST: u64 = 24;
/// Number of sleeps, over all threads, after which the interval has grown by [`FIRST`].
const GROWS: u64 = 8;
/// Maximum total sleep of the program, in milliseconds, unless `POSTROOM_CHAOS_MS` is set.
const MOST: u64 = 1_500;

/// The seed and the maximum total sleep in microseconds, if sleeps are enabled.
static PLAN: OnceLock<Option<(u64, u64)>> = OnceLock::new();
static THREADS: AtomicU64 = AtomicU64::new(0);
static SLEPT: AtomicU64 = AtomicU64::new(0);
static SLEEPS: AtomicU64 = AtomicU64::new(0);

/// The random numbers of a thread, by `xorshift64`: this file can import nothing from the modules above it.
struct Disturbance {
    state: u64,
    left: u64,
}

thread_local! {
    static DISTURBANCE: RefCell<Option<Disturbance>> = const { RefCell::new(None) };
}

fn plan() -> Option<(u64, u64)> {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    *PLAN.get_or_init(|| Some((number("POSTROOM_CHAOS_SEED")?, 1_000 * number("POSTROOM_CHAOS_MS").unwrap_or(MOST))))
}

impl Disturbance {
    fn of_thread(seed: u64) -> Self {
        let thread = THREADS.fetch_add(1, Ordering::Relaxed) + 1;
        let mut chance = Self { state: (seed.wrapping_add(thread.wrapping_mul(0x9e37_79b9_7f4a_7c15))) | 1, left: 0 };
        chance.left = chance.below(FIRST);
        chance
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % bound
    }

    /// Returns how long to sleep at this place, in microseconds: mostly as long as a step or two, sometimes as long as
    /// it takes to start a thread or put one to sleep, and rarely longer than any stall limit.
    fn next(&mut self) -> Option<u64> {
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        let distance = FIRST * (1 + SLEEPS.fetch_add(1, Ordering::Relaxed) / GROWS);
        self.left = self.below(2 * distance);
        let (least, most) = match self.below(20) {
            0 => (20_000, 40_000),
            1..=5 => (2_000, 8_000),
            _ => (100, 1_000),
        };
        Some(least + self.below(most - least))
    }
}

/// Sleeps if a sleep is due at this place.
pub(crate) fn disturb() {
    let Some((seed, most)) = plan() else { return };
    let rest = DISTURBANCE.try_with(|own| {
        // The borrow ends before any other code is called.
        let mut own = own.try_borrow_mut().ok()?;
        own.get_or_insert_with(|| Disturbance::of_thread(seed)).next()
    });
    // A thread that is ending no longer has a `Disturbance`.
    let Ok(Some(rest)) = rest else { return };
    if super::simulated::is_here() {
        return;
    }
    if SLEPT.fetch_add(rest, Ordering::Relaxed) < most {
        std::thread::sleep(Duration::from_micros(rest));
    }
}

/// A fence that may sleep before and after.
pub(crate) fn fence(order: Ordering) {
    disturb();
    atomic::fence(order);
    disturb();
}

/// An atomic pointer that may sleep before and after each exchange, for example between a sender's exchange of a
/// mailbox's tail and its link from the previous node.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct AtomicPtr<T>(atomic::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    pub(crate) const fn new(pointer: *mut T) -> Self {
        Self(atomic::AtomicPtr::new(pointer))
    }

    pub(crate) fn swap(&self, pointer: *mut T, order: Ordering) -> *mut T {
        disturb();
        let before = self.0.swap(pointer, order);
        disturb();
        before
    }

    pub(crate) fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        disturb();
        let exchanged = self.0.compare_exchange(current, new, success, failure);
        disturb();
        exchanged
    }
}

impl<T> Deref for AtomicPtr<T> {
    type Target = atomic::AtomicPtr<T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
