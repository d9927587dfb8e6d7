//! The permit that ran a process last, and whether the thread that ran it last keeps its token to itself (see `local`).
//!
//! Only the token's holder writes. For others the marks are hints that may be stale: the tokens of the thread decide.

use crate::sync::{AtomicU16, Ordering, fence_for_models};

pub(crate) struct LastPermit(AtomicU16);

/// What a process that has nothing to do waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParkKind {
    /// Anything: it is idle.
    Idle,
    /// Control only.
    Waiting,
}

/// A thread keeps the token of the process, which is idle.
const IDLE: u16 = 1 << 15;
/// A thread keeps the token of the process, which waits for control only.
const WAITING: u16 = 1 << 14;
/// With one of these: the thread keeps it in the table of its cache, where it does not look by itself.
const IN_TABLE: u16 = 1 << 13;
const KEPT: u16 = IDLE | WAITING;
const MARKS: u16 = KEPT | IN_TABLE;
/// Stands for no permit.
const NONE: u16 = IN_TABLE - 1;

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

    /// Returns whether a thread keeps the process, and what that waits for.
    pub(crate) fn kept(&self) -> Option<ParkKind> {
        match self.0.load(Ordering::Relaxed) & KEPT {
            0 => None,
            IDLE => Some(ParkKind::Idle),
            _ => Some(ParkKind::Waiting),
        }
    }

    #[inline(always)]
    pub(crate) fn is_kept_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) & IDLE != 0
    }

    #[inline(always)]
    pub(crate) fn is_kept_waiting(&self) -> bool {
        self.0.load(Ordering::Relaxed) & WAITING != 0
    }

    pub(crate) fn is_in_table(&self) -> bool {
        self.0.load(Ordering::Relaxed) & IN_TABLE != 0
    }

    /// As [`is_kept_idle`](Self::is_kept_idle), after a push (*ask* of `local::cache`).
    #[inline(always)]
    pub(crate) fn is_kept_idle_after_push(&self) -> bool {
        fence_for_models();
        self.0.load(Ordering::SeqCst) & IDLE != 0
    }

    /// The same, also if it waits for control only.
    #[inline(always)]
    pub(crate) fn is_kept_after_push(&self) -> bool {
        fence_for_models();
        self.0.load(Ordering::SeqCst) & KEPT != 0
    }

    /// Notes that the calling thread keeps the process, or, with `None`, that it does not any more.
    #[inline(always)]
    pub(crate) fn keep(&self, kind: Option<ParkKind>) {
        let mark = match kind {
            None => 0,
            Some(ParkKind::Idle) => IDLE,
            Some(ParkKind::Waiting) => WAITING,
        };
        self.0.store(self.0.load(Ordering::Relaxed) & !MARKS | mark, Ordering::Relaxed);
    }

    /// Notes that the calling thread keeps the process in the table of its cache from here on.
    #[inline(always)]
    pub(crate) fn note_in_table(&self) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert_eq!((word & KEPT).count_ones(), 1, "it is kept, for one reason: {word:#x}");
        self.0.store(word | IN_TABLE, Ordering::Relaxed);
    }
}
