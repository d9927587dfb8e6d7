//! Where nodes come from and go back to.
//!
//! Each thread keeps some on a [shelf](crate::mem::magazine): a message costs a few plain loads and stores, whichever
//! threads send and receive, and one queue operation per [`CHAIN`] messages.
//!
//! The memory of nodes is never returned (senders, and callers that gave up, may look at a node long after): it stays
//! at its high-water mark.

use super::node::{Envelope, MailNode, NodeBox};
use crate::mem::arena::permanent;
use crate::mem::magazine::{Depot, FreeLink, ThreadCache, link};
use crate::mem::poison;
use std::cell::UnsafeCell;
use std::ptr::NonNull;

/// How many nodes move between a thread and the program at a time: 16 KiB, so that the queue's cost (about 40 ns when
/// it crosses cores) is spread over as many messages.
const CHAIN: usize = 256;

static DEPOT: Depot = Depot::new(CHAIN, slab, || FAREWELL.try_with(|_| ()).is_ok());

/// What a thread keeps.
struct NodeCache {
    shelf: ThreadCache,
    /// How many nodes this thread has drawn, and what else has been counted, for the budget of a time slice.
    spent: u64,
    /// The address of a mailbox that is marked as too full and that the process whose time slice this thread runs need
    /// not ask any more; zero if there is none. It is kept here, as `spent` is, because sending touches this record
    /// anyway.
    known_congested: usize,
}

thread_local! {
    static STOCK: UnsafeCell<NodeCache> = const { UnsafeCell::new(NodeCache { shelf: ThreadCache::EMPTY, spent: 0, known_congested: 0 }) };
    /// Returns the stock's nodes to the program when the thread ends. Apart from the stock, so that this needs no
    /// destructor and stays usable in the destructors of others.
    static FAREWELL: FlushNodes = const { FlushNodes };
}

struct FlushNodes;

impl Drop for FlushNodes {
    fn drop(&mut self) {
        with_stock(|stock| stock.shelf.leave(&DEPOT));
    }
}

#[inline]
fn with_stock<R>(body: impl FnOnce(&mut NodeCache) -> R) -> R {
    // SAFETY: the stock is this thread's alone, `with` runs `body` on this thread, and no body below calls out to code
    // that could come back here.
    STOCK.with(|stock| body(unsafe { &mut *stock.get() }))
}

/// A free node with `envelope` in it.
#[inline]
pub(crate) fn node(envelope: Envelope) -> NodeBox {
    let mut node = with_stock(NodeCache::take);
    node.put(envelope);
    node
}

/// A free node with a message in it; `word` is the caller that waits for its answer, or null.
#[inline]
pub(crate) fn message<M: Send + 'static>(generation: u64, message: M, word: *mut MailNode) -> NodeBox {
    let mut node = with_stock(NodeCache::take);
    node.put_message(generation, message, word);
    node
}

/// A free node that carries nothing.
pub(crate) fn empty() -> NodeBox {
    with_stock(NodeCache::take)
}

/// Returns a node that carries nothing to the pool.
#[inline]
pub(crate) fn recycle(node: NodeBox) {
    let node = node.into_raw();
    // Before another thread can take it.
    poison::given_back(node.cast(), MailNode::ALWAYS_READABLE, size_of::<MailNode>());
    // SAFETY: it was taken from this depot, and carries nothing.
    with_stock(|stock| unsafe { stock.shelf.add(&DEPOT, node.cast()) });
}

/// Returns how many nodes this thread has drawn so far, and what else was counted: what a time slice has spent is the
/// difference of two such counts. It is kept here because sending a message touches this record anyway.
#[inline]
pub(crate) fn spent() -> u64 {
    with_stock(|stock| stock.spent)
}

/// The same, when a time slice begins: of no mailbox is it known yet how full it is.
#[inline]
pub(crate) fn begin_turn() -> u64 {
    with_stock(|stock| {
        stock.known_congested = 0;
        stock.spent
    })
}

/// Counts something that costs as much as sending so many messages.
#[inline]
pub(crate) fn spend(count: u32) {
    with_stock(|stock| stock.spent += u64::from(count));
}

/// The address of the mailbox that is known to be pressed on, or zero.
#[inline]
pub(crate) fn known_congested() -> usize {
    with_stock(|stock| stock.known_congested)
}

/// From here on that one is known to be pressed on. Returns the one before.
pub(crate) fn set_known_congested(address: usize) -> usize {
    with_stock(|stock| std::mem::replace(&mut stock.known_congested, address))
}

impl NodeCache {
    #[inline]
    fn take(&mut self) -> NodeBox {
        self.spent += 1;
        let node = self.shelf.take(&DEPOT).cast();
        poison::taken(node.cast(), size_of::<MailNode>());
        // SAFETY: the pieces of this depot are nodes, and it leaves the shelf here, so it has one owner.
        unsafe { NodeBox::from_raw(node) }
    }
}

/// A new chain.
fn slab(count: usize) -> NonNull<FreeLink> {
    const { assert!(std::mem::offset_of!(MailNode, next) == 0) };
    let memory = permanent(count * size_of::<MailNode>());
    for index in 0..count {
        // SAFETY: within the memory, which is aligned to cache lines as nodes are.
        unsafe { memory.cast::<MailNode>().add(index).write(MailNode::empty()) };
    }
    // SAFETY: as many nodes, which begin with their link.
    unsafe { link(memory, count, size_of::<MailNode>()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Mutation: a shelf with one spare chain, so that the others go through the program's queue.
    #[test]
    fn of_a_burst_that_a_thread_has_given_back_it_takes_the_last_first() {
        std::thread::spawn(|| {
            let taken: Vec<NodeBox> = (0..5 * CHAIN).map(|_| empty()).collect();
            let given: Vec<_> = taken.iter().map(NodeBox::as_ptr).collect();
            taken.into_iter().for_each(recycle);
            let again: Vec<NodeBox> = given.iter().map(|_| empty()).collect();
            assert!(again.iter().map(NodeBox::as_ptr).eq(given.iter().rev().copied()));
            again.into_iter().for_each(recycle);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn nodes_are_distinct_while_taken_and_come_back() {
        std::thread::spawn(|| {
            let taken: Vec<NodeBox> = (0..5 * CHAIN).map(|_| empty()).collect();
            let addresses: HashSet<_> = taken.iter().map(|node| node.as_ptr()).collect();
            assert_eq!(addresses.len(), taken.len());
            taken.into_iter().for_each(recycle);
            let again: Vec<NodeBox> = (0..2 * CHAIN).map(|_| empty()).collect();
            assert!(again.iter().all(|node| addresses.contains(&node.as_ptr())));
            again.into_iter().for_each(recycle);
        })
        .join()
        .unwrap();
    }
}
