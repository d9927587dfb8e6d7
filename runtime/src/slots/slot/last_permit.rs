//! The permit that ran a process last, and whether the thread that ran it last keeps its token to itself (see `local`):
//! that of a *warm* process, which is idle; of one in the thread's cache, which is idle too; or of an *awaiting* one,
//! which waits for control only.
//!
//! Only the token's holder writes. For others the marks are hints that may be stale: the tokens of the thread decide.

use crate::sync::{AtomicU16, Ordering, fence_for_models};

pub(crate) struct LastPermit(AtomicU16);

/// Idle, and its thread keeps the token as that of its warm process.
const WARM: u16 = 1 << 15;
/// Waits for control only, and its thread keeps the token as that of its awaiting process.
const AWAITING: u16 = 1 << 14;
/// Idle, and its thread keeps the token in its cache.
const CACHED: u16 = 1 << 13;
const MARKS: u16 = WARM | AWAITING | CACHED;
/// Stands for no permit.
const NONE: u16 = CACHED - 1;

impl LastPermit {
    /// There may be as many permits.
    pub(crate) const MOST: usize = NONE as usize;

    pub(super) fn none() -> Self {
        Self(AtomicU16::new(NONE))
    }

    /// Notes that the process has not run.
    pub(crate) fn clear(&self) {
        self.0.store(NONE, Ordering::Relaxed);
    }

    /// Notes that a thread with that permit runs the process.
    #[inline(always)]
    pub(crate) fn set(&self, permit: usize) {
        self.0.store(permit as u16, Ordering::Relaxed);
    }

    /// Returns the permit: at or above the number of permits if there is none.
    pub(crate) fn get(&self) -> usize {
        usize::from(self.0.load(Ordering::Relaxed) & NONE)
    }

    /// Returns whether it is warm, also in the cache.
    #[inline(always)]
    pub(crate) fn is_warm(&self) -> bool {
        self.0.load(Ordering::Relaxed) & (WARM | CACHED) != 0
    }

    /// As [`is_warm`](Self::is_warm), after a push (*ask* of `idle_cache`).
    #[inline(always)]
    pub(crate) fn is_warm_after_push(&self) -> bool {
        fence_for_models();
        self.0.load(Ordering::SeqCst) & (WARM | CACHED) != 0
    }

    /// The same, also if it is awaiting.
    #[inline(always)]
    pub(crate) fn is_kept_after_push(&self) -> bool {
        fence_for_models();
        self.0.load(Ordering::SeqCst) & MARKS != 0
    }

    pub(crate) fn is_cached(&self) -> bool {
        self.0.load(Ordering::Relaxed) & CACHED != 0
    }

    #[inline(always)]
    pub(crate) fn is_awaiting(&self) -> bool {
        self.0.load(Ordering::Relaxed) & AWAITING != 0
    }

    #[inline(always)]
    pub(crate) fn set_warm(&self, is_warm: bool) {
        let before = self.0.load(Ordering::Relaxed) & !(WARM | CACHED);
        self.store(if is_warm { before | WARM } else { before });
    }

    /// Notes that a warm process is in the cache from here on.
    #[inline(always)]
    pub(crate) fn set_cached(&self) {
        self.store(self.0.load(Ordering::Relaxed) & !WARM | CACHED);
    }

    #[inline(always)]
    pub(crate) fn set_awaiting(&self, is_awaiting: bool) {
        let before = self.0.load(Ordering::Relaxed) & !AWAITING;
        self.store(if is_awaiting { before | AWAITING } else { before });
    }

    #[inline(always)]
    fn store(&self, word: u16) {
        debug_assert!((word & MARKS).count_ones() <= 1, "a token is in one place: {word:#x}");
        self.0.store(word, Ordering::Relaxed);
    }
}
