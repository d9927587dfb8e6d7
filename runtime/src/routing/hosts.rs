//! The past and present hosts of this program, by number, and checks of whether a PID belongs here.

use crate::env::program::{HOSTLESS, acting_node, program_node};
use crate::env::world::World;
use crate::pid::{NodeId, Pid};
use crate::sync::{AtomicU16, AtomicU64, OnceLock, Ordering, PoisonError, RwLock, simulated};
use std::collections::BTreeMap;

struct Numbers([AtomicU64; 1 << (u16::BITS - u64::BITS.ilog2())]);

impl Numbers {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 1 << (u16::BITS - u64::BITS.ilog2())])
    }

    fn word(&self, number: u16) -> (&AtomicU64, u64) {
        (&self.0[usize::from(number) / 64], 1 << (number % 64))
    }

    /// Inserts a number. Returns whether it was absent.
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

/// The hosts that exist or have existed.
static KNOWN: World<Numbers> = World::new(Numbers::new());
/// The hosts that have begun to shut down.
static DOWN: World<Numbers> = World::new(Numbers::new());
/// The hosts whose number is in use.
static IN_USE: World<Numbers> = World::new(Numbers::new());

/// Returns a number for a new host. Unless all numbers are in use, no other host gets it until it is
/// [released](release). Numbers repeat after 65,535 hosts. PIDs stay unique by slot and generation, which all hosts of
/// a program share.
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

/// Makes the number available to later hosts.
pub(crate) fn release(number: u16) {
    if simulated::ARE_BUILT {
        logical().write().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }
    IN_USE.remove(number);
}

/// The nodes of the hosts that are nodes of their own, by host number. Empty in builds without simulations.
fn logical() -> &'static RwLock<BTreeMap<u16, NodeId>> {
    static LOGICAL: World<OnceLock<RwLock<BTreeMap<u16, NodeId>>>> = World::new(OnceLock::new());
    LOGICAL.get_or_init(RwLock::default)
}

/// Records the node of a host.
pub(crate) fn belongs_to(number: u16, node: NodeId) {
    if !simulated::ARE_BUILT {
        return;
    }
    let mut logical = logical().write().unwrap_or_else(PoisonError::into_inner);
    if node == program_node() {
        logical.remove(&number);
    } else {
        logical.insert(number, node);
    }
}

/// Returns the node of a host: that of the program unless the host is a logical node.
#[inline]
pub(crate) fn node_of(number: u16) -> NodeId {
    if !simulated::ARE_BUILT {
        return program_node();
    }
    let logical = logical().read().unwrap_or_else(PoisonError::into_inner);
    logical.get(&number).copied().unwrap_or_else(program_node)
}

/// Returns whether the node is one of this program's.
pub(crate) fn is_of_program(node: NodeId) -> bool {
    let is_logical =
        || logical().read().unwrap_or_else(PoisonError::into_inner).values().any(|logical| *logical == node);
    node == program_node() || simulated::ARE_BUILT && is_logical()
}

/// Returns whether the calling code can reach the process with this PID without a transport: the process belongs to the
/// same node or, for code outside of runtimes, to any node of this program.
#[inline]
pub(crate) fn is_here(pid: Pid) -> bool {
    match acting_node() {
        Some(own) => pid.node() == own,
        None => is_of_program(pid.node()),
    }
}

/// Returns whether the process with this PID belongs to another node, although it may be in the table of slots. Costs
/// nothing in builds without logical nodes: there, all processes in the table belong to one node.
#[inline(always)]
pub(crate) fn is_elsewhere(pid: Pid) -> bool {
    acting_node().is_some_and(|own| pid.node() != own)
}

/// Returns whether this node has, or had, a host with this number.
pub(crate) fn is_known(number: u16) -> bool {
    number == HOSTLESS || KNOWN.contains(number)
}

/// Returns whether the host with this number, or the latest host if several have had it, has begun to shut down.
pub(crate) fn is_down(number: u16) -> bool {
    DOWN.contains(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a number that is given out again while its first host still runs.
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
        // Now all numbers are in use, so one is shared.
        assert!(next_free(&next, &in_use) < HOSTLESS);
    }
}
