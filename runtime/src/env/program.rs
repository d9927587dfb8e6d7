//! The identity of this run of the program, which its PIDs begin with.

use crate::env::world::World;
use crate::pid::NodeId;
use crate::sync::{AtomicU64, Ordering};

/// The host number in a PID that belongs to no host: that of a stand-alone mailbox, and an alias.
pub(crate) const HOSTLESS: u16 = u16::MAX;

/// Returns the identity of this run of the program, with which its PIDs begin. Drawn at random, once, before the first
/// PID is given out.
#[inline]
pub fn this_node() -> NodeId {
    NodeId::new(NODE.load(Ordering::Relaxed)).unwrap_or_else(draw_node)
}

/// Zero until it is drawn.
static NODE: World<AtomicU64> = World::new(AtomicU64::new(0));

#[cold]
fn draw_node() -> NodeId {
    let drawn = NodeId::from_random(super::chance::entropy());
    match NODE.compare_exchange(0, drawn.get(), Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => drawn,
        Err(first) => NodeId::new(first).unwrap_or(drawn),
    }
}
