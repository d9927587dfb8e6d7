//! The process of a slot, and whether it is alive: the word that makes a PID valid and invalid.
//!
//! | transition | from | to | order |
//! |---|---|---|---|
//! | [`open`](Generation::open) | closed, generation *n* | alive, generation *n + 1* | Release |
//! | [`close`](Generation::close) | alive, generation *n* | closed, generation *n* | sequentially consistent |
//!
//! Only the token's holder makes them; any thread may read.

use crate::pid::LAST_GENERATION;
use crate::sync::{AtomicU64, Ordering};

pub(super) struct Generation(AtomicU64);

/// The value of the word: a generation, and in bit 0 whether its process is alive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct GenerationWord(u64);

impl GenerationWord {
    #[inline]
    fn alive(generation: u64) -> Self {
        Self(generation << 1 | 1)
    }

    #[inline]
    pub(super) fn generation(self) -> u64 {
        self.0 >> 1
    }

    #[inline]
    pub(super) fn is_alive(self) -> bool {
        self.0 & 1 == 1
    }
}

impl Generation {
    pub(super) fn unused() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline]
    pub(super) fn load(&self, order: Ordering) -> GenerationWord {
        GenerationWord(self.0.load(order))
    }

    #[inline]
    pub(super) fn is_alive(&self, generation: u64, order: Ordering) -> bool {
        self.load(order) == GenerationWord::alive(generation)
    }

    #[inline]
    pub(super) fn next(&self) -> u64 {
        self.load(Ordering::Relaxed).generation() + 1
    }

    pub(super) fn has_next(&self) -> bool {
        self.load(Ordering::Relaxed).generation() < LAST_GENERATION
    }

    /// Opens the [next](Self::next) generation: its process is alive from here on.
    #[inline]
    pub(super) fn open(&self, generation: u64) {
        debug_assert!(!self.load(Ordering::Relaxed).is_alive(), "one process in a slot at a time");
        self.0.store(GenerationWord::alive(generation).0, Ordering::Release);
    }

    /// Marks the process as dead, in one total order with checks by its registrants: see `registrations`.
    pub(super) fn close(&self) {
        let word = self.load(Ordering::Relaxed);
        debug_assert!(word.is_alive(), "a process ends once");
        self.0.store(word.0 & !1, Ordering::SeqCst);
    }
}
