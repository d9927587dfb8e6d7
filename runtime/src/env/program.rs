//! The identity of this run of the program, which is the first part of its PIDs.
//!
//! With the feature `test`, a runtime can be a *logical node* (`Builder::logical_node`). The code of its processes then
//! acts as that node, and so does the code of a transport while it delivers to the node. The node that a thread acts as
//! is stored per thread. Without the feature there is only one node, and no lookup.

use crate::env::world::World;
use crate::pid::NodeId;
use crate::sync::simulated;
use crate::sync::{AtomicU64, Ordering};
use std::cell::Cell;

/// The host number in a PID that belongs to no host, such as that of a stand-alone mailbox.
pub(crate) const HOSTLESS: u16 = u16::MAX;

/// Returns the identity of this run of the program, which is the first part of its PIDs. It is drawn at random, once,
/// before the first PID is given out.
///
/// In a process of a logical node (`Builder::logical_node`, with the feature `test`), returns that node instead.
#[inline]
pub fn this_node() -> NodeId {
    acting_node().unwrap_or_else(program_node)
}

/// Returns the node of the program, whichever node the calling code belongs to.
#[inline]
pub(crate) fn program_node() -> NodeId {
    NodeId::new(NODE.load(Ordering::Relaxed)).unwrap_or_else(draw_node)
}

/// The program's node ID; zero until it is drawn.
static NODE: World<AtomicU64> = World::new(AtomicU64::new(0));

#[cold]
fn draw_node() -> NodeId {
    let drawn = NodeId::random();
    match NODE.compare_exchange(0, drawn.get(), Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => drawn,
        Err(first) => NodeId::new(first).unwrap_or(drawn),
    }
}

impl NodeId {
    /// Draws a node ID, as each run of a program does for itself.
    pub fn random() -> Self {
        Self::from_random(super::chance::entropy())
    }
}

thread_local! {
    /// The node that the code of this thread acts as.
    static ACTING: Cell<Option<NodeId>> = const { Cell::new(None) };
}

/// Returns the node that the calling code acts as, if any. Code that acts as no node observes all nodes.
#[inline(always)]
pub(crate) fn acting_node() -> Option<NodeId> {
    if simulated::ARE_BUILT { ACTING.try_with(Cell::get).ok().flatten() } else { None }
}

/// A guard: until it is dropped, the code of its thread acts as a node.
pub(crate) struct Acting {
    outer: Option<NodeId>,
}

impl Acting {
    #[inline(always)]
    pub(crate) fn begin(node: NodeId) -> Self {
        let replace = |acting: &Cell<_>| acting.replace(Some(node));
        Self { outer: if simulated::ARE_BUILT { ACTING.try_with(replace).ok().flatten() } else { None } }
    }
}

impl Drop for Acting {
    #[inline(always)]
    fn drop(&mut self) {
        if simulated::ARE_BUILT {
            let _ending = ACTING.try_with(|acting| acting.set(self.outer));
        }
    }
}

/// Runs `body` as code of `node`.
#[inline]
pub(crate) fn as_node<R>(node: NodeId, body: impl FnOnce() -> R) -> R {
    let _acting = Acting::begin(node);
    body()
}
