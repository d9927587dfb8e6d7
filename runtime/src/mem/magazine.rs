//! Free pieces of memory of one size, kept by each thread and exchanged between threads in chains.
//!
//! A thread keeps the chain that it is at and up to [`SPARES`] full ones; one more goes to the program's depot, a
//! thread that has none left takes one from there, and only when there is none is memory allocated, a slab at a time.
//! So a piece costs a few plain loads and stores, whichever threads take it and give it back, and at most one queue
//! operation per chain.
//!
//! The spare chains are a stack: what was given back last is taken first, and is still in the core's cache. (The depot
//! is a queue. With one spare chain, as in the scheme's source, a burst of a thousand messages went through it, so that
//! one thread alone went round all the memory that it had ever needed at once.)
//!
//! The memory is never returned: it stays at its high-water mark. A thread that ends gives its chains to the depot.
//!
//! The magazine scheme is Bonwick and Adams's (2001).

use crate::sync::{AtomicPtr, Ordering, SegQueue};
use std::ptr::{self, NonNull};

/// The first word of a free piece: the next free one. Atomic, because those who hold a stale pointer to a piece may
/// look at its first word at any time (see `mailbox::node`).
#[repr(transparent)]
pub(crate) struct FreeLink(AtomicPtr<FreeLink>);

impl FreeLink {
    pub(crate) const fn new(next: *mut Self) -> Self {
        Self(AtomicPtr::new(next))
    }
}

/// How many full chains a thread keeps. Of nodes, with the one that it is at, as many as a mailbox of the default bound
/// has.
const SPARES: usize = 4;

/// Free pieces, linked.
struct Magazine(NonNull<FreeLink>);

// SAFETY: a chain owns its pieces.
unsafe impl Send for Magazine {}

/// What the program keeps of one size.
pub(crate) struct Depot {
    chains: SegQueue<Magazine>,
    /// How many pieces a chain has.
    length: usize,
    /// Makes a new chain.
    slab: fn(usize) -> NonNull<FreeLink>,
    /// Sees to it that [`ThreadCache::leave`] is called when the calling thread ends; gives whether that is still to
    /// come.
    register: fn() -> bool,
}

impl Depot {
    pub(crate) const fn new(length: usize, slab: fn(usize) -> NonNull<FreeLink>, register: fn() -> bool) -> Self {
        Self { chains: SegQueue::new(), length, slab, register }
    }
}

/// What a thread keeps of one size.
pub(crate) struct ThreadCache {
    /// The chain that is drawn from and added to.
    hand: *mut FreeLink,
    count: usize,
    /// Full chains; the last was put there last.
    spares: [*mut FreeLink; SPARES],
    spare: usize,
}

impl ThreadCache {
    pub(crate) const EMPTY: Self =
        Self { hand: ptr::null_mut(), count: 0, spares: [ptr::null_mut(); SPARES], spare: 0 };

    /// A free piece.
    #[inline]
    pub(crate) fn take(&mut self, depot: &Depot) -> NonNull<FreeLink> {
        let piece = NonNull::new(self.hand).unwrap_or_else(|| self.refill(depot));
        // SAFETY: the pieces of a shelf are owned by it.
        self.hand = unsafe { piece.as_ref() }.0.load(Ordering::Relaxed);
        self.count = self.count.wrapping_sub(1);
        piece
    }

    /// Takes a piece back.
    ///
    /// # Safety
    /// The piece was taken from a shelf of the same depot, and no thread uses it any more but for a look at its first
    /// word.
    #[inline]
    pub(crate) unsafe fn add(&mut self, depot: &Depot, piece: NonNull<FreeLink>) {
        if self.hand.is_null() || self.count == depot.length {
            return self.add_first(depot, piece);
        }
        // SAFETY: the caller gives it up.
        unsafe { piece.as_ref() }.0.store(self.hand, Ordering::Relaxed);
        self.hand = piece.as_ptr();
        self.count += 1;
    }

    /// The hand is empty, or full: then it becomes a spare chain, or goes to the depot if there are enough.
    #[cold]
    fn add_first(&mut self, depot: &Depot, piece: NonNull<FreeLink>) {
        // SAFETY: the caller gives it up.
        unsafe { piece.as_ref() }.0.store(ptr::null_mut(), Ordering::Relaxed);
        if !(depot.register)() {
            // No thread would empty this shelf any more.
            return depot.chains.push(Magazine(piece));
        }
        if let Some(full) = NonNull::new(std::mem::replace(&mut self.hand, piece.as_ptr())) {
            match self.spares.get_mut(self.spare) {
                Some(place) => {
                    *place = full.as_ptr();
                    self.spare += 1;
                }
                None => depot.chains.push(Magazine(full)),
            }
        }
        self.count = 1;
    }

    /// The last of the spare chains.
    fn take_spare(&mut self) -> Option<NonNull<FreeLink>> {
        self.spare = self.spare.checked_sub(1)?;
        NonNull::new(self.spares[self.spare])
    }

    /// The hand is empty: takes a spare chain, one of the program's, or new memory.
    #[cold]
    fn refill(&mut self, depot: &Depot) -> NonNull<FreeLink> {
        let chain = self.take_spare();
        let chain = chain.or_else(|| depot.chains.pop().map(|chain| chain.0));
        let chain = chain.unwrap_or_else(|| (depot.slab)(depot.length));
        // A thread that has ended may have left a shorter one. Then the count is too high when the hand is empty again,
        // and a chain that is put by is shorter than others.
        self.count = depot.length;
        if !(depot.register)() {
            // No thread would empty this shelf any more: it keeps one piece, and the rest goes back.
            // SAFETY: a chain owns its pieces.
            let rest = unsafe { chain.as_ref() }.0.swap(ptr::null_mut(), Ordering::Relaxed);
            NonNull::new(rest).into_iter().for_each(|rest| depot.chains.push(Magazine(rest)));
        }
        chain
    }

    /// The thread ends.
    pub(crate) fn leave(&mut self, depot: &Depot) {
        let hand = NonNull::new(std::mem::replace(&mut self.hand, ptr::null_mut()));
        self.count = 0;
        for chain in hand.into_iter().chain(std::iter::from_fn(|| self.take_spare())) {
            depot.chains.push(Magazine(chain));
        }
    }
}

/// Links the `count` pieces of `size` bytes that begin at `memory`.
///
/// # Safety
/// The memory is there, aligned for a [`FreeLink`] at every piece, and is the caller's.
pub(crate) unsafe fn link(memory: NonNull<u8>, count: usize, size: usize) -> NonNull<FreeLink> {
    let mut next = ptr::null_mut();
    for index in (0..count).rev() {
        // SAFETY: within the memory, by the caller's promise.
        let piece = unsafe { memory.add(index * size) }.cast::<FreeLink>();
        // SAFETY: as above, and aligned.
        unsafe { piece.write(FreeLink::new(next)) };
        next = piece.as_ptr();
    }
    memory.cast()
}
