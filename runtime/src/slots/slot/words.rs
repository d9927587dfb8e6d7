//! The small words of a slot, on its first cache line: its flags, why its process does not run yet, the permit that ran
//! it last, and its counts.
//!
//! Only the token's holder writes them, except that other threads also set or clear CONGESTED and SUSPENDED. For other
//! threads the words are hints.

use crate::sync::{AtomicU8, AtomicU16, Ordering, fence_for_models};

pub(super) const COLD_STATE: u8 = 1;
/// The mailbox is above its bound. This is a hint for senders: a sender that sees a change late makes one check too few
/// or too many.
pub(super) const CONGESTED: u8 = 2;
/// The cold state has work for each step: values to pass on, or controls that were left over.
pub(super) const CHECKS_COLD_STATE: u8 = 4;
/// The process is suspended at the congested mailbox of another process.
pub(super) const SUSPENDED: u8 = 8;
/// The mailbox has its own bound. Set before the process begins.
pub(super) const OWN_BOUND: u8 = 16;
/// The bound is hard: messages are in a queue, and placeholders for them in the lane. Set before the process begins.
pub(super) const HARD_BOUND: u8 = 32;
/// The process has a supervisor, and the supervisor stops it when the host is shut down.
pub(super) const SUPERVISED: u8 = 64;
/// Requests to stop are delivered to the process as signals, ahead of its messages, because it has other processes to
/// stop first.
pub(super) const TOLD_TO_STOP: u8 = 128;

pub(super) struct Flags(AtomicU8);

impl Flags {
    pub(super) fn none() -> Self {
        Self(AtomicU8::new(0))
    }

    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns whether one of `flags` is set, with a relaxed load.
    #[inline]
    pub(super) fn any(&self, flags: u8) -> bool {
        self.0.load(Ordering::Relaxed) & flags != 0
    }

    /// Like `any`, but with a sequentially consistent load.
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

/// The reason why a process that is taken from a queue does not run: it has exceeded its time slice, or is suspended at
/// a mailbox.
///
/// One byte holds both, so that a time slice begins with one read. Both are needed: a process that sends a little to
/// each of many others congests no mailbox, and without the deficit it would run ahead of all of them (4.6 times the
/// time per message of *fan_out*, see `benches/NOTES.md`).
pub(crate) struct Deficit(AtomicU8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deferral {
    Slices(u8),
    /// The process is or was suspended, and may also be waiting for its yields. Its time slice begins by checking that.
    Suspended {
        for_yields: bool,
    },
}

const SUSPENSION: u8 = u8::MAX;
const SUSPENSION_FOR_YIELDS: u8 = u8::MAX - 1;
const MOST: u8 = SUSPENSION_FOR_YIELDS - 1;

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
            SUSPENSION => Deferral::Suspended { for_yields: false },
            SUSPENSION_FOR_YIELDS => Deferral::Suspended { for_yields: true },
            slices => Deferral::Slices(slices),
        }
    }

    /// Sets how many time slices the process must wait, up to the maximum that can be stored.
    pub(crate) fn set_slices(&self, slices: u64) {
        self.0.store(u8::try_from(slices).unwrap_or(MOST).min(MOST), Ordering::Relaxed);
    }

    pub(crate) fn suspend(&self, for_yields: bool) {
        self.0.store(if for_yields { SUSPENSION_FOR_YIELDS } else { SUSPENSION }, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The permit that ran a process last, and whether the thread that ran it last keeps its token (see `thread_cache`).
///
/// For other threads the marks are hints that may be stale: only the places where that thread keeps its tokens are
/// authoritative.
pub(crate) struct LastPermit(AtomicU16);

/// The input that a process with nothing to do waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParkKind {
    /// Anything: it is idle.
    Idle,
    /// Control only.
    Waiting,
}

/// A thread keeps the token of the process. The process is idle.
const IDLE: u16 = 1 << 15;
/// A thread keeps the token of the process. The process waits for control only.
const WAITING: u16 = 1 << 14;
/// This is set together with IDLE or WAITING. The token is in the table of the thread's cache, so the thread must be
/// notified of input.
const IN_TABLE: u16 = 1 << 13;
const KEPT: u16 = IDLE | WAITING;
const MARKS: u16 = KEPT | IN_TABLE;
/// Stored instead of a permit if there is none.
const NONE: u16 = IN_TABLE - 1;

impl LastPermit {
    /// The maximum number of permits.
    pub(crate) const MOST: usize = NONE as usize;

    pub(super) fn none() -> Self {
        Self(AtomicU16::new(NONE))
    }

    /// Records that the process has not run.
    pub(crate) fn clear(&self) {
        self.0.store(NONE, Ordering::Relaxed);
    }

    /// Records that a thread with `permit` runs the process.
    #[inline(always)]
    pub(crate) fn set(&self, permit: usize) {
        self.0.store(permit as u16, Ordering::Relaxed);
    }

    /// Returns the permit, or a number that no permit has if there is none.
    pub(crate) fn get(&self) -> usize {
        usize::from(self.0.load(Ordering::Relaxed) & NONE)
    }

    /// Returns what the process waits for if a thread keeps it.
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

    /// Like [`is_kept_idle`](Self::is_kept_idle), for use after a push (*ask* in `thread_cache::cache`).
    #[inline(always)]
    pub(crate) fn is_kept_idle_after_push(&self) -> bool {
        fence_for_models();
        self.0.load(Ordering::SeqCst) & IDLE != 0
    }

    /// Like [`is_kept_idle_after_push`](Self::is_kept_idle_after_push), but also returns true if the process waits for
    /// control only.
    #[inline(always)]
    pub(crate) fn is_kept_after_push(&self) -> bool {
        fence_for_models();
        self.0.load(Ordering::SeqCst) & KEPT != 0
    }

    /// Records that the calling thread keeps the process or, with `None`, that it no longer does.
    #[inline(always)]
    pub(crate) fn keep(&self, kind: Option<ParkKind>) {
        let mark = match kind {
            None => 0,
            Some(ParkKind::Idle) => IDLE,
            Some(ParkKind::Waiting) => WAITING,
        };
        self.0.store(self.0.load(Ordering::Relaxed) & !MARKS | mark, Ordering::Relaxed);
    }

    /// Records that the calling thread keeps the process in the table of its cache from here on.
    #[inline(always)]
    pub(crate) fn note_in_table(&self) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert_eq!((word & KEPT).count_ones(), 1, "it is kept, for one reason: {word:#x}");
        self.0.store(word | IN_TABLE, Ordering::Relaxed);
    }
}

/// The word of counts on the first cache line: twelve bits of steps, twenty of messages.
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

    /// Adds a step with its messages. If the step does not fit, the number of steps in the result is zero.
    #[inline]
    pub(super) fn and_step(self, messages: u32) -> Self {
        Self(self.0.wrapping_add((messages << Self::STEP_BITS) + 1))
    }
}
