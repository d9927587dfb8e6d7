//! A stand-in for the pool of nodes: each thread of the model keeps those that it gave back, and draws the last one first,
//! as the shelves of the real one do. Chains that go from thread to thread are left out: they only hide the quick re-use
//! of one node, which is what a model wants to see.

use super::node::{Letter, Node, NodeBox};
use crate::check;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr::NonNull;

thread_local! {
    /// Of each thread of the model: its free nodes. Emptied between executions by [`reset`].
    static SHELVES: RefCell<HashMap<u64, Vec<NonNull<Node>>>> = RefCell::new(HashMap::new());
}

/// Forgets all nodes; they end with the execution that made them.
pub(crate) fn reset() {
    SHELVES.with_borrow_mut(HashMap::clear);
}

pub(crate) fn node(letter: Letter) -> NodeBox {
    let mut node = empty();
    node.put(letter);
    node
}

pub(crate) fn message<M: Send + 'static>(generation: u64, message: M, word: *mut Node) -> NodeBox {
    let mut node = empty();
    node.put_message(generation, message, word);
    node
}

pub(crate) fn empty() -> NodeBox {
    let me = check::thread();
    let kept = SHELVES.with_borrow_mut(|shelves| shelves.get_mut(&me)?.pop());
    let node = kept.unwrap_or_else(|| NonNull::from(check::keep(Node::empty())));
    // SAFETY: kept until the end of the execution; it has just left the shelf, or was just made.
    unsafe { NodeBox::from_raw(node) }
}

pub(crate) fn recycle(node: NodeBox) {
    SHELVES.with_borrow_mut(|shelves| shelves.entry(check::thread()).or_default().push(node.into_raw()));
}

/// Budgets are no concern of the models.
pub(crate) fn spend(_count: u32) {}
