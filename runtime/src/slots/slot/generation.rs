//! The process of a slot, and whether it is alive: the word that makes a PID valid and invalid.
//!
//! | transition | from | to | order |
//! |---|---|---|---|
//! | [`open`](Generation::open) | never used, or over | alive, the next generation | Release |
//! | [`close`](Generation::close) | alive | exiting | sequentially consistent |
//! | [`vacate`](Generation::vacate) | exiting | over | a light barrier follows |
//!
//! Only the token's holder makes them; any thread may read. A process that is exiting may still be asked to notify
//! others of its end; one that is over may not: see [`requests`](super::requests).

use crate::pid::LAST_GENERATION;
use crate::sync::{AtomicU64, Ordering, checked_light_barrier, fence_for_models};

pub(super) struct Generation(AtomicU64);

/// The value of the word: a generation, and in the last two bits the phase of its process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct GenerationWord(u64);

/// How far a process has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifePhase {
    Exiting = 0,
    Alive = 1,
    /// Its exit has emptied its mailbox for the last time. (Also of a slot that was never used.)
    Over = 2,
}

const PHASE_BITS: u32 = 2;
const PHASE_MASK: u64 = (1 << PHASE_BITS) - 1;

impl GenerationWord {
    #[inline]
    fn of(generation: u64, phase: LifePhase) -> Self {
        Self(generation << PHASE_BITS | phase as u64)
    }

    #[inline]
    pub(super) fn generation(self) -> u64 {
        self.0 >> PHASE_BITS
    }

    #[inline]
    pub(super) fn is_alive(self) -> bool {
        self.0 & PHASE_MASK == LifePhase::Alive as u64
    }

    /// Returns the phase of the process of that generation, which is over if another one has the slot.
    pub(super) fn phase_of(self, generation: u64) -> LifePhase {
        [LifePhase::Alive, LifePhase::Exiting]
            .into_iter()
            .find(|phase| self == Self::of(generation, *phase))
            .unwrap_or(LifePhase::Over)
    }
}

impl Generation {
    pub(super) fn unused() -> Self {
        Self(AtomicU64::new(GenerationWord::of(0, LifePhase::Over).0))
    }

    #[inline]
    pub(super) fn load(&self, order: Ordering) -> GenerationWord {
        GenerationWord(self.0.load(order))
    }

    #[inline]
    pub(super) fn is_alive(&self, generation: u64, order: Ordering) -> bool {
        self.load(order) == GenerationWord::of(generation, LifePhase::Alive)
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
        self.0.store(GenerationWord::of(generation, LifePhase::Alive).0, Ordering::Release);
    }

    /// Marks the process as exiting, in one total order with checks by its registrants: see `registrations`.
    pub(super) fn close(&self) {
        let word = self.load(Ordering::Relaxed);
        debug_assert!(word.is_alive(), "a process ends once");
        self.0.store(GenerationWord::of(word.generation(), LifePhase::Exiting).0, Ordering::SeqCst);
    }

    /// Marks the process as over (*vacate* of `requests`). What the caller reads next is read after that, as those who
    /// pass a heavy barrier see it.
    #[inline]
    pub(super) fn vacate(&self) {
        let word = self.load(Ordering::Relaxed);
        debug_assert!(!word.is_alive(), "it is exiting");
        // Of `close`.
        fence_for_models();
        self.0.store(GenerationWord::of(word.generation(), LifePhase::Over).0, Ordering::Relaxed);
        checked_light_barrier();
    }
}
