//! The hosts that this node has or had, by number.

use crate::env::{program::HOSTLESS, world::World};
use crate::sync::{AtomicU16, AtomicU64, Ordering};

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

/// All hosts so far, and those of them that have begun to shut down.
static KNOWN: World<Numbers> = World::new(Numbers::new());
static DOWN: World<Numbers> = World::new(Numbers::new());

/// Returns a number for a new host. Numbers repeat after 65,535 hosts: a PID is unique by its slot and generation,
/// which all hosts of a program share.
pub(crate) fn new_host() -> u16 {
    static NEXT: World<AtomicU16> = World::new(AtomicU16::new(0));
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % HOSTLESS;
    DOWN.remove(number);
    KNOWN.insert(number);
    number
}

pub(crate) fn goes_down(number: u16) {
    DOWN.insert(number);
}

/// Returns whether this node has, or had, a host with that number.
pub(crate) fn is_known(number: u16) -> bool {
    number == HOSTLESS || KNOWN.contains(number)
}

/// Returns whether the host with that number, or the latest of several, has begun to shut down.
pub(crate) fn is_down(number: u16) -> bool {
    DOWN.contains(number)
}
