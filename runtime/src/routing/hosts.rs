//! The hosts that this node has or had, by their numbers.

use crate::env::program::HOSTLESS;
use crate::env::world::World;
use crate::sync::{AtomicU16, AtomicU64, Ordering};

/// A set of host numbers.
struct Numbers([AtomicU64; 1 << (u16::BITS - u64::BITS.ilog2())]);

impl Numbers {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 1 << (u16::BITS - u64::BITS.ilog2())])
    }

    fn word(&self, number: u16) -> (&AtomicU64, u64) {
        (&self.0[usize::from(number) / 64], 1 << (number % 64))
    }

    fn insert(&self, number: u16) {
        let (word, bit) = self.word(number);
        word.fetch_or(bit, Ordering::AcqRel);
    }

    fn remove(&self, number: u16) {
        let (word, bit) = self.word(number);
        word.fetch_and(!bit, Ordering::AcqRel);
    }

    fn contains(&self, number: u16) -> bool {
        let (word, bit) = self.word(number);
        word.load(Ordering::Acquire) & bit != 0
    }
}

/// Hosts that there are or were, and those of them that are being shut down or have been.
static KNOWN: World<Numbers> = World::new(Numbers::new());
static DOWN: World<Numbers> = World::new(Numbers::new());

/// A number for a new host. After 65,535 of them the numbers start anew: what makes a PID unique is its slot and
/// generation, which all hosts of a program share.
pub(crate) fn new_host() -> u16 {
    static NEXT: World<AtomicU16> = World::new(AtomicU16::new(0));
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % HOSTLESS;
    DOWN.remove(number);
    KNOWN.insert(number);
    number
}

/// The shutdown of the host of that number has begun.
pub(crate) fn goes_down(number: u16) {
    DOWN.insert(number);
}

/// Returns whether this node has, or had, a host of that number.
pub(crate) fn is_known(number: u16) -> bool {
    number == HOSTLESS || KNOWN.contains(number)
}

/// Returns whether the host of that number is being shut down, or has been; if several have had the number, the last of
/// them.
pub(crate) fn is_down(number: u16) -> bool {
    DOWN.contains(number)
}
