//! The small words of a slot, on its first cache line: its flags, why its process does not run yet, the permit that ran
//! it last, and its counts.
//!
//! Only the token's holder writes them, except for flags that say so. For other threads they are hints.

use crate::sync::{AtomicU8, AtomicU16, Ordering, fence_for_models};

pub(super) const COLD_STATE: u8 = 1;
/// The mailbox is above its bound. A hint for senders: one that sees it late checks once too few or too many.
pub(super) const CONGESTED: u8 = 2;
/// The cold state has work for each step: values to pass on, or controls that were left.
pub(super) const CHECKS_COLD_STATE: u8 = 4;
/// The process is suspended at the congested mailbox of another.
pub(super) const SUSPENDED: u8 = 8;
/// The mailbox has its own bound. Set before the process begins.
pub(super) const OWN_BOUND: u8 = 16;
/// The bound is hard: messages are in a queue, and placeholders for them in the lane. Set before the process begins.
pub(super) const HARD_BOUND: u8 = 32;
/// The process has a supervisor, which stops it when its host is shut down.
pub(super) const SUPERVISED: u8 = 64;
/// Requests to stop are delivered to the process as signals, ahead of its messages: it has others to stop first.
pub(super) const TOLD_TO_STOP: u8 = 128;

pub(super) struct Flags(AtomicU8);

impl Flags {
    pub(super) fn none() -> Self {
        Self(AtomicU8::new(0))
    }

    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns whether one of `flags` is set. Relaxed.
    #[inline]
    pub(super) fn any(&self, flags: u8) -> bool {
        self.0.load(Ordering::Relaxed) & flags != 0
    }

    /// Like `any`, sequentially consistent.
    pub(super) fn any_in_order(&self, flags: u8) -> bool {
        self.0.load(Ordering::SeqCst) & flags != 0
    }

    pub(super) fn set(&self, flags: u8, to: bool) {
        if to {
            self.0.fetch_or(flags, Ordering::SeqCst);
        } else {
            self.0.fetch_and(!flags, Ordering::SeqCst);
        }
    }
}

/// Why a process that is taken from a queue does not run: it has exceeded its time slice, or is suspended at a mailbox.
///
/// One byte for both, so that a time slice begins with one read. Both are needed: a process that sends a little to each
/// of many congests no mailbox, and without the deficit runs ahead of all of them (4.6 times the time per message of
/// *fan_out*, see `benches/NOTES.md`).
pub(crate) struct Deficit(AtomicU8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deferral {
    Slices(u8),
    /// It is, or was, suspended, perhaps waiting for its yields besides: its time slice begins by checking that.
    Suspended {
        for_yields: bool,
    },
}

const DEFERRED: u8 = u8::MAX;
const DEFERRED_FOR_YIELDS: u8 = u8::MAX - 1;
const MOST: u8 = DEFERRED_FOR_YIELDS - 1;

impl Deficit {
    pub(super) fn none() -> Self {
        Self(AtomicU8::new(0))
    }

    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn deferral(&self) -> Deferral {
        match self.0.load(Ordering::Relaxed) {
            DEFERRED => Deferral::Suspended { for_yields: false },
            DEFERRED_FOR_YIELDS => Deferral::Suspended { for_yields: true },
            slices => Deferral::Slices(slices),
        }
    }

    /// Sets how many time slices the process lets pass, up to the most that can be stored.
    pub(crate) fn set_slices(&self, slices: u64) {
        self.0.store(u8::try_from(slices).unwrap_or(MOST).min(MOST), Ordering::Relaxed);
    }

    pub(crate) fn suspend(&self, for_yields: bool) {
        self.0.store(if for_yields { DEFERRED_FOR_YIELDS } else { DEFERRED }, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The permit that ran a process last, and whether the thread that ran it last keeps its token to itself (see `local`).
///
/// For other threads the marks are hints that may be stale: the tokens of the thread decide.
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

/// The word on the first cache line: twelve bits of steps, twenty of messages.
#[derive(Clone, Copy)]
pub(super) struct CountsWord(pub(super) u32);

impl CountsWord {
    const STEP_BITS: u32 = 12;
    #[inline]
    pub(super) fn steps(self) -> u32 {
        self.0 & ((1 << Self::STEP_BITS) - 1)
    }

    #[inline]
    pub(super) fn messages(self) -> u32 {
        self.0 >> Self::STEP_BITS
    }

    /// Adds a step with its messages. If there was no room for it, the steps are zero.
    #[inline]
    pub(super) fn and_step(self, messages: u32) -> Self {
        Self(self.0.wrapping_add((messages << Self::STEP_BITS) + 1))
    }
}
