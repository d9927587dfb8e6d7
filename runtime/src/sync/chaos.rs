//! Sleeps at the places where threads meet, planted by the feature `chaos` for the runtime's own tests: a window of a
//! few instructions, which a test meets once in a million, becomes one of milliseconds.
//!
//! The places: before and after a lock, before a park or a wait, around an unpark, a fence and an exchange of a
//! pointer, at the start of a thread, and around each step of a process. `POSTROOM_CHAOS_SEED` switches them on, and
//! `POSTROOM_CHAOS_MS` bounds how long all threads of the program sleep in all. Each thread draws from the seed and the
//! number of the thread, so the same seed sleeps at similar places, and not at the same: the kernel has its say.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{self, AtomicU64, Ordering};
use std::time::Duration;

/// The first sleeps are that many places apart, on average; later ones more and more, so that short tests are
/// disturbed and long ones too.
const FIRST: u64 = 24;
/// After how many sleeps of the program the distance has grown by [`FIRST`].
const GROWS: u64 = 8;
/// How many milliseconds the program sleeps at most, unless `POSTROOM_CHAOS_MS` says otherwise.
const MOST: u64 = 1_500;

/// The seed and the most microseconds, if there is chaos.
static PLAN: OnceLock<Option<(u64, u64)>> = OnceLock::new();
static THREADS: AtomicU64 = AtomicU64::new(0);
static SLEPT: AtomicU64 = AtomicU64::new(0);
static SLEEPS: AtomicU64 = AtomicU64::new(0);

/// The chance of a thread: `xorshift64`, since nothing is below this file that could be imported.
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

    /// Returns how long to sleep at this place, in microseconds: mostly as long as a step or two, at times as long
    /// as it takes another thread to be started or put to sleep, and seldom longer than any limit of a stall.
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

/// Sleeps, if it is this place's turn.
pub(crate) fn disturb() {
    let Some((seed, most)) = plan() else { return };
    let rest = DISTURBANCE.try_with(|own| {
        // Borrowed only here, where nothing else is called.
        let mut own = own.try_borrow_mut().ok()?;
        own.get_or_insert_with(|| Disturbance::of_thread(seed)).next()
    });
    // A thread that ends has none any more.
    let Ok(Some(rest)) = rest else { return };
    #[cfg(feature = "test")]
    if super::simulated::is_here() {
        return;
    }
    if SLEPT.fetch_add(rest, Ordering::Relaxed) < most {
        std::thread::sleep(Duration::from_micros(rest));
    }
}

/// A fence with a place before and after it.
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
