//! Why a process that is taken from a queue does not run: it has exceeded its time slice, or is suspended at a mailbox.
//!
//! One byte for both, so that the start of a time slice reads one. Only the token's holder writes it. Both are needed:
//! a process that sends a little to each of many congests no mailbox, and without the deficit runs ahead of all of them
//! (4.6 times the time per message of *fan_out*, see `benches/NOTES.md`).

use crate::sync::{AtomicU8, Ordering};

/// The deficit or suspension of a process, in a byte.
pub(crate) struct Deficit(AtomicU8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deferral {
    Slices(u8),
    /// It is, or was, suspended, perhaps waiting for its yields besides: its time slice begins by checking that.
    Suspended {
        for_yields: bool,
    },
}

const SUSPENDED: u8 = u8::MAX;
const SUSPENDED_FOR_YIELDS: u8 = u8::MAX - 1;
const MOST: u8 = SUSPENDED_FOR_YIELDS - 1;

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
            SUSPENDED => Deferral::Suspended { for_yields: false },
            SUSPENDED_FOR_YIELDS => Deferral::Suspended { for_yields: true },
            slices => Deferral::Slices(slices),
        }
    }

    /// Sets how many time slices the process lets pass, up to the most that can be stored.
    pub(crate) fn set_slices(&self, slices: u64) {
        self.0.store(u8::try_from(slices).unwrap_or(MOST).min(MOST), Ordering::Relaxed);
    }

    pub(crate) fn suspend(&self, for_yields: bool) {
        self.0.store(if for_yields { SUSPENDED_FOR_YIELDS } else { SUSPENDED }, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
