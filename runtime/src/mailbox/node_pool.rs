//! The pool of nodes.
//!
//! Each thread caches nodes in [magazines](crate::mem::magazine): a message costs a few plain loads and stores,
//! whichever threads send and receive it, and one queue operation per [`MAGAZINE`] messages.
//!
//! Nodes are never freed, because senders, and callers that have given up, may read a node much later.

use super::node::{Envelope, MailNode, NodeBox};
use crate::mem::arena::permanent;
use crate::mem::magazine::{Depot, FreeLink, ThreadCache, link};
use crate::mem::poison;
use std::cell::UnsafeCell;
use std::ptr::NonNull;

/// The number of nodes that move between a thread and the program at a time. They take 16 KiB, and amortize the cost of
/// the queue (about 40 ns).
const MAGAZINE: usize = 256;

static DEPOT: Depot = Depot::new(MAGAZINE, || FLUSH.try_with(|_| ()).is_ok());

struct NodeCache {
    cache: ThreadCache,
    /// The number of nodes that this thread has taken, plus other costs. It measures how much of its budget a time
    /// slice has spent.
    spent: u64,
    /// The address of a congested mailbox that the running process already knows of, or zero. Kept here, like `spent`,
    /// because each send touches this record anyway.
    known_congested: usize,
}

thread_local! {
    static CACHE: UnsafeCell<NodeCache> =
        const { UnsafeCell::new(NodeCache { cache: ThreadCache::EMPTY, spent: 0, known_congested: 0 }) };
    /// Returns the thread's nodes to the program when the thread ends. It is separate from the cache, because other
    /// destructors use the cache.
    static FLUSH: FlushNodes = const { FlushNodes };
}

struct FlushNodes;

impl Drop for FlushNodes {
    fn drop(&mut self) {
        let _none = with_cache(|own| own.cache.leave(&DEPOT));
    }
}

#[inline]
fn with_cache<R>(body: impl FnOnce(&mut NodeCache) -> R) -> R {
    // Only the address is obtained in the closure: a large closure would make the thread-local access a function call.
    let own = CACHE.with(|own| own.get());
    // SAFETY: the cache belongs to this thread alone and needs no destructor; no body below calls foreign code that
    // could re-enter.
    body(unsafe { &mut *own })
}

#[inline]
pub(crate) fn node(envelope: Envelope) -> NodeBox {
    let mut node = with_cache(NodeCache::take);
    node.put(envelope);
    node
}

/// Takes a node and stores a message in it. `word` points to the caller's node, or is null.
#[inline]
pub(crate) fn message<M: Send + 'static>(generation: u64, message: M, word: *mut MailNode) -> NodeBox {
    let mut node = with_cache(NodeCache::take);
    node.put_message((generation, 0), message, word);
    node
}

/// Like [`message`], but fills `first`, the empty first node of a lane, in place. Its link is kept, and its sequence
/// number grows by one.
///
/// # Safety
/// The caller owns the content of `first`.
#[inline(always)]
pub(crate) unsafe fn message_in<M: Send + 'static>(
    first: NonNull<MailNode>,
    generation: u64,
    message: M,
    word: *mut MailNode,
) {
    // Counted like a node from the pool.
    spend(1);
    // SAFETY: nodes are never freed; by the caller's promise, nothing else uses the `NodeBox` as an owner.
    let (mut node, number) = unsafe { (NodeBox::from_raw(first), first.as_ref().next_number()) };
    node.put_untraced((generation, number), message, word);
    let _first = node.into_raw();
}

#[inline]
pub(crate) fn empty() -> NodeBox {
    with_cache(NodeCache::take)
}

/// Returns a node without content to the pool.
#[inline]
pub(crate) fn recycle(node: NodeBox) {
    let node = node.into_raw();
    // This must precede `add`, because afterwards another thread can take the node.
    poison::given_back(node.cast(), MailNode::ALWAYS_READABLE, size_of::<MailNode>());
    // SAFETY: it was taken from this depot, and has no content.
    let _none = with_cache(|own| unsafe { own.cache.add(&DEPOT, node.cast()) });
}

/// Returns how much budget this thread has spent so far. What a time slice has spent is the difference between two such
/// counts. The count is kept here because each send touches this record anyway.
#[inline]
pub(crate) fn spent() -> u64 {
    with_cache(|own| own.spent)
}

/// Forgets the mailbox that is known to be congested. Called at the start of a time slice. Returns the count of
/// [`spent`].
#[inline]
pub(crate) fn forget_congested() -> u64 {
    with_cache(|own| {
        own.known_congested = 0;
        own.spent
    })
}

#[inline]
pub(crate) fn spend(count: u32) {
    with_cache(|own| own.spent += u64::from(count));
}

/// Returns the address of the mailbox that is known to be congested, or zero.
#[inline]
pub(crate) fn known_congested() -> usize {
    with_cache(|own| own.known_congested)
}

/// Sets the mailbox that is known to be congested. Returns the previous one.
pub(crate) fn set_known_congested(address: usize) -> usize {
    with_cache(|own| std::mem::replace(&mut own.known_congested, address))
}

impl NodeCache {
    #[inline]
    fn take(&mut self) -> NodeBox {
        self.spent += 1;
        let node = self.cache.take(&DEPOT, slab).cast();
        poison::taken(node.cast(), size_of::<MailNode>());
        // SAFETY: the pieces of this depot are nodes, and the node leaves the cache here, so it has one owner.
        unsafe { NodeBox::from_raw(node) }
    }
}

fn slab(count: usize) -> NonNull<FreeLink> {
    const { assert!(std::mem::offset_of!(MailNode, next) == 0) };
    let memory = permanent(count * size_of::<MailNode>());
    for index in 0..count {
        // SAFETY: within the memory, which is aligned to cache lines, as nodes are.
        unsafe { memory.cast::<MailNode>().add(index).write(MailNode::empty()) };
    }
    // SAFETY: the memory holds that many nodes, each of which begins with its link.
    unsafe { link(memory, count, size_of::<MailNode>()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn nodes_are_distinct_while_taken_and_come_back() {
        std::thread::spawn(|| {
            let taken: Vec<NodeBox> = (0..5 * MAGAZINE).map(|_| empty()).collect();
            let addresses: HashSet<_> = taken.iter().map(|node| node.as_ptr()).collect();
            assert_eq!(addresses.len(), taken.len());
            taken.into_iter().for_each(recycle);
            let again: Vec<NodeBox> = (0..2 * MAGAZINE).map(|_| empty()).collect();
            assert!(again.iter().all(|node| addresses.contains(&node.as_ptr())));
            again.into_iter().for_each(recycle);
        })
        .join()
        .unwrap();
    }
}
