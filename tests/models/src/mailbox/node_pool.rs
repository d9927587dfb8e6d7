//! A stand-in for the pool of nodes. Each thread of the model keeps the nodes that it has recycled, and reuses the most
//! recent one first, as the real pool's magazines do. Batches that move between threads are omitted: they would only
//! hide the quick reuse of a node, which the models should exercise. A model in which nodes change threads has [one
//! magazine](share) for all threads.
//!
//! The real magazines rely on two rules for free nodes, which the stand-in checks: no other thread writes to a node's
//! first word, and no node is recycled twice.

use super::node::{Envelope, MailNode, NodeBox};
use crate::check;
use crate::sync::{AtomicUsize, Ordering};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ptr::NonNull;

thread_local! {
    /// The free nodes of each thread of the model. [`reset`] empties them between executions.
    static MAGAZINES: RefCell<HashMap<u64, Vec<NonNull<MailNode>>>> = RefCell::new(HashMap::new());
    /// Orders all uses of the shared magazine, as the real pool's queue orders the uses of a batch.
    static SHARED: Cell<Option<&'static AtomicUsize>> = const { Cell::new(None) };
    /// A node that is in no mailbox. The first word of each free node is its address.
    static FREE: Cell<Option<&'static MailNode>> = const { Cell::new(None) };
}

/// Forgets all nodes. They are dropped at the end of the execution that made them.
pub(crate) fn reset() {
    MAGAZINES.with_borrow_mut(HashMap::clear);
    SHARED.set(None);
    FREE.set(None);
}

/// Makes all threads of this execution use one magazine from here on.
pub(crate) fn share() {
    SHARED.set(Some(check::keep(AtomicUsize::new(0))));
}

/// Returns the key of the calling thread's magazine.
fn magazine() -> u64 {
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
    node.put_message((generation, 0), message, word);
    node
}

/// # Safety
/// The caller owns the content of `first`.
pub(crate) unsafe fn message_in<M: Send + 'static>(
    first: NonNull<MailNode>,
    generation: u64,
    message: M,
    word: *mut MailNode,
) {
    // SAFETY: the caller promises that it owns the content of `first`.
    let (mut node, number) = unsafe { (NodeBox::from_raw(first), first.as_ref().next_number()) };
    node.put_message((generation, number), message, word);
    let _first = node.into_raw();
}

pub(crate) fn empty() -> NodeBox {
    let magazine = magazine();
    let Some(node) = MAGAZINES.with_borrow_mut(|magazines| magazines.get_mut(&magazine)?.pop()) else {
        // SAFETY: the node was just made, so no other box owns it, and it is kept until the end of the execution.
        return unsafe { NodeBox::from_raw(NonNull::from(check::keep(MailNode::empty()))) };
    };
    // SAFETY: the node is kept until the end of the execution, and has just left the magazine.
    let node = unsafe { NodeBox::from_raw(node) };
    assert_eq!(node.next().load(Ordering::Relaxed), free(), "a thread has written to a free node");
    node
}

pub(crate) fn recycle(node: NodeBox) {
    node.next().store(free(), Ordering::Relaxed);
    let magazine = magazine();
    MAGAZINES.with_borrow_mut(|magazines| {
        let node = node.into_raw();
        let twice = magazines.values().any(|magazine| magazine.contains(&node));
        assert!(!twice, "a node was given back twice");
        magazines.entry(magazine).or_default().push(node);
    });
}

/// Does nothing: models have no budgets.
pub(crate) fn spend(_count: u32) {}

/// Returns zero: no thread of a model congests a mailbox.
pub(crate) fn known_congested() -> usize {
    0
}
