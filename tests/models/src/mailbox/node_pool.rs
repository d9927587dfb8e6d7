//! A stand-in for the pool of nodes: each thread of the model keeps those that it gave back, and draws the last one
//! first, as the shelves of the real one do. Chains that go from thread to thread are left out: they only hide the
//! quick re-use of one node, which is what a model wants to see. A model that wants to see nodes change threads has
//! [one shelf](share) for all.
//!
//! A free node is watched as the real shelves would suffer from it: its first word is theirs, so nobody else may write
//! there, and it is given back once.

use super::node::{Envelope, MailNode, NodeBox};
use crate::check;
use crate::sync::{AtomicUsize, Ordering};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ptr::NonNull;

thread_local! {
    /// Of each thread of the model: its free nodes. Emptied between executions by [`reset`].
    static SHELVES: RefCell<HashMap<u64, Vec<NonNull<MailNode>>>> = RefCell::new(HashMap::new());
    /// Orders all uses of the one shelf, as the real pool's queue orders those of a chain.
    static SHARED: Cell<Option<&'static AtomicUsize>> = const { Cell::new(None) };
    /// What the first word of free nodes says: the address of a node that is nowhere.
    static FREE: Cell<Option<&'static MailNode>> = const { Cell::new(None) };
}

/// Forgets all nodes; they end with the execution that made them.
pub(crate) fn reset() {
    SHELVES.with_borrow_mut(HashMap::clear);
    SHARED.set(None);
    FREE.set(None);
}

/// From here on all threads of this execution use one shelf.
pub(crate) fn share() {
    SHARED.set(Some(check::keep(AtomicUsize::new(0))));
}

/// The calling thread's shelf.
fn shelf() -> u64 {
    match SHARED.get() {
        Some(order) => {
            order.fetch_add(1, Ordering::AcqRel);
            0
        }
        None => check::thread(),
    }
}

fn free() -> *mut MailNode {
    let free = FREE.get().unwrap_or_else(|| check::keep(MailNode::empty()));
    FREE.set(Some(free));
    std::ptr::from_ref(free).cast_mut()
}

pub(crate) fn node(envelope: Envelope) -> NodeBox {
    let mut node = empty();
    node.put(envelope);
    node
}

pub(crate) fn message<M: Send + 'static>(generation: u64, message: M, word: *mut MailNode) -> NodeBox {
    let mut node = empty();
    node.put_message(generation, message, word);
    node
}

pub(crate) fn empty() -> NodeBox {
    let shelf = shelf();
    let Some(node) = SHELVES.with_borrow_mut(|shelves| shelves.get_mut(&shelf)?.pop()) else {
        // SAFETY: kept until the end of the execution, and just made.
        return unsafe { NodeBox::from_raw(NonNull::from(check::keep(MailNode::empty()))) };
    };
    // SAFETY: kept until the end of the execution; it has just left the shelf.
    let node = unsafe { NodeBox::from_raw(node) };
    assert_eq!(node.next().load(Ordering::Relaxed), free(), "somebody has written to a free node");
    node
}

pub(crate) fn recycle(node: NodeBox) {
    node.next().store(free(), Ordering::Relaxed);
    let shelf = shelf();
    SHELVES.with_borrow_mut(|shelves| {
        let node = node.into_raw();
        let twice = shelves.values().any(|shelf| shelf.contains(&node));
        assert!(!twice, "a node was given back twice");
        shelves.entry(shelf).or_default().push(node);
    });
}

/// Budgets are of no interest here.
pub(crate) fn spend(_count: u32) {}

/// No thread of a model presses on a mailbox.
pub(crate) fn known_congested() -> usize {
    0
}
