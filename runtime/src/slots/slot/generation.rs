//! The generation of a slot's process, and whether it is alive: the word that makes a PID valid or invalid.
//!
//! | transition | from | to | order |
//! |---|---|---|---|
//! | [`open`](Generation::open) | never used, or over | alive, the next generation | Release |
//! | [`close`](Generation::close) | alive | exiting | sequentially consistent |
//! | [`vacate`](Generation::vacate) | exiting | over | a light barrier follows |
//!
//! Only the token's holder makes these transitions; any thread may read. A process that is exiting can still be asked
//! to notify others of its end. A process that is over cannot: see [`requests`](super::requests).

use crate::pid::LAST_GENERATION;
use crate::sync::{AtomicU64, Ordering, checked_light_barrier, fence_for_models};

pub(super) struct Generation(AtomicU64);

/// The value of the word: a generation and, in the lowest two bits, the phase of its process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct GenerationWord(u64);

/// The phase in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifePhase {
    Exiting = 0,
    Alive = 1,
    /// The exit has emptied the mailbox for the last time. A slot that was never used also has this phase.
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

    /// Returns the phase of the process of `generation`. If the slot has another process, the phase is `Over`.
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

    /// Marks the process as over (*vacate* in `requests`). For a thread that passes a heavy barrier, the caller's next
    /// reads come after this store.
    #[inline]
    pub(super) fn vacate(&self) {
        let word = self.load(Ordering::Relaxed);
        debug_assert!(!word.is_alive(), "it is exiting");
        // Models need this fence in place of the ordering of the store in `close`.
        fence_for_models();
        self.0.store(GenerationWord::of(word.generation(), LifePhase::Over).0, Ordering::Relaxed);
        checked_light_barrier();
    }
}
