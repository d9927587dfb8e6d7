//! Where nodes come from and go back to.
//!
//! Each thread keeps up to two chains of free nodes; a full spare one goes to the program's list of chains, an empty hand
//! takes one from there, and only when there is none is memory allocated, a slab at a time. So a message costs a few plain
//! loads and stores, whichever threads send and receive, and one queue operation per [`CHAIN`] messages.
//!
//! The memory of nodes is never returned (senders, and callers that gave up, may look at a node long after): it stays at
//! its high-water mark. A thread that ends gives its chains to the program's list.
//!
//! The magazine scheme is Bonwick and Adams's (2001).

use super::node::{Letter, Node, NodeBox};
use crate::sync::{Ordering, SegQueue};
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};

/// How many nodes move between a thread and the program at a time: 16 KiB, so that the queue's cost (about 40 ns when it
/// crosses cores) is spread over as many messages. A guess that the comparison's fan-in would settle.
const CHAIN: usize = 256;

/// The first of [`CHAIN`] free nodes, linked by their `next`.
struct Chain(NonNull<Node>);

// SAFETY: a chain owns its nodes.
unsafe impl Send for Chain {}

static CHAINS: SegQueue<Chain> = SegQueue::new();

/// What a thread keeps.
struct Shelf {
    /// The chain that is drawn from and added to.
    hand: *mut Node,
    count: usize,
    /// How many nodes this thread has drawn, for the budget of a step.
    drawn: u32,
    /// A full chain, or null.
    spare: *mut Node,
    /// Whether this thread's farewell has been arranged.
    registered: bool,
}

thread_local! {
    static SHELF: UnsafeCell<Shelf> =
        const { UnsafeCell::new(Shelf { hand: ptr::null_mut(), count: 0, drawn: 0, spare: ptr::null_mut(), registered: false }) };
    /// Returns the shelf's nodes when the thread ends. Apart from the shelf, so that the shelf needs no destructor and
    /// stays usable in the destructors of others.
    static FAREWELL: Farewell = const { Farewell };
}

struct Farewell;

impl Drop for Farewell {
    fn drop(&mut self) {
        with_shelf(|shelf| {
            for chain in [
                std::mem::replace(&mut shelf.hand, ptr::null_mut()),
                std::mem::replace(&mut shelf.spare, ptr::null_mut()),
            ] {
                NonNull::new(chain).map(Chain).into_iter().for_each(|chain| CHAINS.push(chain));
            }
            shelf.count = 0;
        });
    }
}

fn with_shelf<R>(body: impl FnOnce(&mut Shelf) -> R) -> R {
    // SAFETY: the shelf is this thread's alone, `with` runs `body` on this thread, and no body below calls out to code
    // that could come back here.
    SHELF.with(|shelf| body(unsafe { &mut *shelf.get() }))
}

/// A free node with `letter` in it.
#[inline]
pub(crate) fn node(letter: Letter) -> NodeBox {
    let mut node = with_shelf(Shelf::take);
    node.put(letter);
    node
}

/// A free node that carries nothing.
pub(crate) fn empty() -> NodeBox {
    with_shelf(Shelf::take)
}

/// Gives back a node that carries nothing.
#[inline]
pub(crate) fn recycle(node: NodeBox) {
    with_shelf(|shelf| shelf.add(node));
}

/// How many nodes this thread has drawn so far, wrapping: what it has sent is the difference of two such counts.
#[inline]
pub(crate) fn drawn() -> u32 {
    with_shelf(|shelf| shelf.drawn)
}

impl Shelf {
    #[inline]
    fn take(&mut self) -> NodeBox {
        if self.hand.is_null() {
            self.refill();
        }
        // SAFETY: `refill` leaves at least one node in hand.
        let node = unsafe { NonNull::new_unchecked(self.hand) };
        // SAFETY: the nodes of a shelf are owned by it.
        self.hand = unsafe { (*node.as_ptr()).next.load(Ordering::Relaxed) };
        self.count = self.count.saturating_sub(1);
        self.drawn = self.drawn.wrapping_add(1);
        // SAFETY: it leaves the shelf here, so it has one owner.
        unsafe { NodeBox::from_raw(node) }
    }

    #[inline]
    fn add(&mut self, node: NodeBox) {
        if self.count >= CHAIN {
            self.put_by();
        }
        node.next().store(self.hand, Ordering::Relaxed);
        self.hand = node.into_raw().as_ptr();
        self.count += 1;
    }

    /// The hand is empty: takes the spare chain, the program's, or new memory.
    #[cold]
    fn refill(&mut self) {
        self.register();
        self.hand = std::mem::replace(&mut self.spare, ptr::null_mut());
        if self.hand.is_null() {
            self.hand = CHAINS.pop().map_or_else(slab, |chain| chain.0.as_ptr());
        }
        // A thread that has ended may have left a shorter one; the count only decides when to put by.
        self.count = CHAIN;
    }

    /// The hand is full: it becomes the spare chain, and the spare one goes to the program.
    #[cold]
    fn put_by(&mut self) {
        self.register();
        let spare = std::mem::replace(&mut self.spare, std::mem::replace(&mut self.hand, ptr::null_mut()));
        if let Some(chain) = NonNull::new(spare) {
            CHAINS.push(Chain(chain));
        }
        self.count = 0;
    }

    fn register(&mut self) {
        if !self.registered {
            self.registered = true;
            // Fails only while this thread's destructors run; then its last few nodes stay with it.
            let _ = FAREWELL.try_with(|_| ());
        }
    }
}

/// A new chain.
fn slab() -> *mut Node {
    let nodes: Box<[Node]> = (0..CHAIN).map(|_| Node::empty()).collect();
    let nodes = Box::leak(nodes);
    let mut first = ptr::null_mut();
    for node in nodes.iter_mut().rev() {
        node.next.store(first, Ordering::Relaxed);
        first = ptr::from_mut(node);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

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
