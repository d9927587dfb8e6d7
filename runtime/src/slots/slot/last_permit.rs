//! The permit that ran a process last, and whether its token is kept by the thread that ran it last (see
//! `slots/slot/local_tokens`): of a process that is *warm*, which is idle, perhaps on the [shelf](super::shelf), or
//! *at hand*, which waits for control only.
//!
//! Only the token's holder writes. For others the marks are hints that may be stale: the tokens of the thread decide.

use crate::sync::{AtomicU16, Ordering, fence_for_models};

pub(crate) struct LastPermit(AtomicU16);

const WARM: u16 = 1 << 15;
const AT_HAND: u16 = 1 << 14;
const SHELVED: u16 = 1 << 13;
/// Stands for no permit.
const NONE: u16 = SHELVED - 1;

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

    /// Returns whether it is warm, also on the shelf.
    #[inline(always)]
    pub(crate) fn is_warm(&self) -> bool {
        self.0.load(Ordering::Relaxed) & (WARM | SHELVED) != 0
    }

    /// As [`is_warm`](Self::is_warm), after a push (*ask* of `shelf`).
    #[inline(always)]
    pub(crate) fn is_warm_after_push(&self) -> bool {
        fence_for_models();
        self.0.load(Ordering::SeqCst) & (WARM | SHELVED) != 0
    }

    /// The same, also if it is at hand.
    #[inline(always)]
    pub(crate) fn is_kept_after_push(&self) -> bool {
        fence_for_models();
        self.0.load(Ordering::SeqCst) & (WARM | SHELVED | AT_HAND) != 0
    }

    pub(crate) fn is_shelved(&self) -> bool {
        self.0.load(Ordering::Relaxed) & SHELVED != 0
    }

    #[inline(always)]
    pub(crate) fn is_at_hand(&self) -> bool {
        self.0.load(Ordering::Relaxed) & AT_HAND != 0
    }

    #[inline(always)]
    pub(crate) fn set_warm(&self, is_warm: bool) {
        let before = self.0.load(Ordering::Relaxed) & !(WARM | SHELVED);
        self.0.store(if is_warm { before | WARM } else { before }, Ordering::Relaxed);
    }

    /// Notes that a warm process is on the shelf from here on.
    #[inline(always)]
    pub(crate) fn set_shelved(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) & !WARM | SHELVED, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn set_at_hand(&self, is_at_hand: bool) {
        self.set_mark(AT_HAND, is_at_hand);
    }

    #[inline(always)]
    fn set_mark(&self, mark: u16, is_set: bool) {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(if is_set { before | mark } else { before & !mark }, Ordering::Relaxed);
    }
}
