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

    /// Returns whether it was absent.
    fn insert(&self, number: u16) -> bool {
        let (word, bit) = self.word(number);
        word.fetch_or(bit, Ordering::AcqRel) & bit == 0
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

/// All hosts so far, those of them that have begun to shut down, and those whose number is in use.
static KNOWN: World<Numbers> = World::new(Numbers::new());
static DOWN: World<Numbers> = World::new(Numbers::new());
static IN_USE: World<Numbers> = World::new(Numbers::new());

/// Returns a number for a new host, which it has to itself until it is [released](release); only if all are in use,
/// it shares one. Numbers repeat after 65,535 hosts: a PID is unique by its slot and generation, which all hosts of a
/// program share.
pub(crate) fn new_host() -> u16 {
    static NEXT: World<AtomicU16> = World::new(AtomicU16::new(0));
    let number = next_free(&NEXT, &IN_USE);
    DOWN.remove(number);
    let _is_new = KNOWN.insert(number);
    number
}

fn next_free(next: &AtomicU16, in_use: &Numbers) -> u16 {
    let next = || next.fetch_add(1, Ordering::Relaxed) % HOSTLESS;
    let free = (0..=HOSTLESS).map(|_| next()).find(|number| in_use.insert(*number));
    free.unwrap_or_else(next)
}

pub(crate) fn goes_down(number: u16) {
    let _was_up = DOWN.insert(number);
}

/// Lets a later host have the number.
pub(crate) fn release(number: u16) {
    IN_USE.remove(number);
}

/// Returns whether this node has, or had, a host with that number.
pub(crate) fn is_known(number: u16) -> bool {
    number == HOSTLESS || KNOWN.contains(number)
}

/// Returns whether the host with that number, or the latest of several, has begun to shut down.
pub(crate) fn is_down(number: u16) -> bool {
    DOWN.contains(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a number that is given out again while its first host runs.
    #[test]
    fn a_number_repeats_only_when_its_host_has_gone() {
        let (next, in_use) = (AtomicU16::new(0), Numbers::new());
        let long = next_free(&next, &in_use);
        for _ in 0..2 * u32::from(u16::MAX) {
            let number = next_free(&next, &in_use);
            assert!(number != long && number != HOSTLESS);
            in_use.remove(number);
        }
        in_use.remove(long);
        assert!((0..=u16::MAX).map(|_| next_free(&next, &in_use)).any(|number| number == long));
        // Now all are in use, and one is shared.
        assert!(next_free(&next, &in_use) < HOSTLESS);
    }
}
