//! Free pieces of memory of one size, cached by each thread and exchanged between threads in magazines.
//!
//! A thread has a loaded magazine and up to [`SPARES`] full ones. Another full one goes to the program's depot; a
//! thread that has none left takes one from there; and only if there is none is memory allocated, a slab at a time. So
//! a piece costs a few plain loads and stores, whichever threads take and free it, and one queue operation a magazine.
//!
//! The spare magazines are a stack: pieces freed last are taken first, and are still in the core's cache. (The depot is
//! a queue. With one spare magazine, as in the scheme's source, a burst of a thousand messages went through it, so that
//! a single thread cycled through all the memory that it had ever needed.)
//!
//! The memory is never freed: it stays at its high-water mark. A thread that ends gives its magazines to the depot.
//!
//! Source: Bonwick and Adams, Magazines and Vmem, 2001.

use crate::sync::{AtomicPtr, Ordering, SegQueue};
use std::ptr::{self, NonNull};

/// The first word of a free piece: the next free one. Atomic, because holders of a stale pointer may read it at any
/// time (see `mailbox::node`).
#[repr(transparent)]
pub(crate) struct FreeLink(AtomicPtr<FreeLink>);

impl FreeLink {
    pub(crate) const fn new(next: *mut Self) -> Self {
        Self(AtomicPtr::new(next))
    }

    /// Returns the next free piece. A plain read: where pieces are taken, an atomic one would keep the compiler from
    /// moving a large message straight to its piece.
    ///
    /// # Safety
    /// The caller owns the piece, so that no thread writes to it.
    #[inline(always)]
    unsafe fn next(&self) -> *mut Self {
        #[cfg(loom)]
        return self.0.load(Ordering::Relaxed);
        // SAFETY: it is valid, and others only read.
        #[cfg(not(loom))]
        return unsafe { self.0.as_ptr().read() };
    }
}

/// How many full magazines a thread keeps. For nodes, with the loaded one, as many as a default mailbox holds.
const SPARES: usize = 4;

/// A magazine: linked free pieces.
struct Magazine(NonNull<FreeLink>);

// SAFETY: a magazine owns its pieces.
unsafe impl Send for Magazine {}

/// The program's magazines of one size.
pub(crate) struct Depot {
    magazines: SegQueue<Magazine>,
    length: usize,
    slab: fn(usize) -> NonNull<FreeLink>,
    /// Arranges that [`ThreadCache::leave`] is called when the calling thread ends; returns false if that is too late.
    register: fn() -> bool,
}

impl Depot {
    pub(crate) const fn new(length: usize, slab: fn(usize) -> NonNull<FreeLink>, register: fn() -> bool) -> Self {
        Self { magazines: SegQueue::new(), length, slab, register }
    }
}

/// A thread's magazines of one size.
pub(crate) struct ThreadCache {
    /// The loaded magazine, which is taken from and added to.
    loaded: *mut FreeLink,
    count: usize,
    /// Full magazines; the last was added last.
    spares: [*mut FreeLink; SPARES],
    spare: usize,
}

impl ThreadCache {
    pub(crate) const EMPTY: Self =
        Self { loaded: ptr::null_mut(), count: 0, spares: [ptr::null_mut(); SPARES], spare: 0 };

    #[inline]
    pub(crate) fn take(&mut self, depot: &Depot) -> NonNull<FreeLink> {
        let piece = NonNull::new(self.loaded).unwrap_or_else(|| self.refill(depot));
        // SAFETY: the cache owns its pieces.
        self.loaded = unsafe { piece.as_ref().next() };
        self.count = self.count.wrapping_sub(1);
        piece
    }

    /// Frees a piece.
    ///
    /// # Safety
    /// The piece was taken from a cache of the same depot, and is not used, except for reads of its first word.
    #[inline]
    pub(crate) unsafe fn add(&mut self, depot: &Depot, piece: NonNull<FreeLink>) {
        if self.loaded.is_null() || self.count == depot.length {
            return self.add_first(depot, piece);
        }
        // SAFETY: the caller gives it up.
        unsafe { piece.as_ref() }.0.store(self.loaded, Ordering::Relaxed);
        self.loaded = piece.as_ptr();
        self.count += 1;
    }

    /// The loaded magazine is empty or full: makes it a spare one, or sends it to the depot.
    #[cold]
    fn add_first(&mut self, depot: &Depot, piece: NonNull<FreeLink>) {
        // SAFETY: the caller gives it up.
        unsafe { piece.as_ref() }.0.store(ptr::null_mut(), Ordering::Relaxed);
        if !(depot.register)() {
            // No destructor would empty this cache any more.
            return depot.magazines.push(Magazine(piece));
        }
        if let Some(full) = NonNull::new(std::mem::replace(&mut self.loaded, piece.as_ptr())) {
            match self.spares.get_mut(self.spare) {
                Some(place) => {
                    *place = full.as_ptr();
                    self.spare += 1;
                }
                None => depot.magazines.push(Magazine(full)),
            }
        }
        self.count = 1;
    }

    fn take_spare(&mut self) -> Option<NonNull<FreeLink>> {
        self.spare = self.spare.checked_sub(1)?;
        NonNull::new(self.spares[self.spare])
    }

    /// The loaded magazine is empty: takes a spare one, one of the depot's, or new memory.
    #[cold]
    fn refill(&mut self, depot: &Depot) -> NonNull<FreeLink> {
        let magazine = self.take_spare();
        let magazine = magazine.or_else(|| depot.magazines.pop().map(|magazine| magazine.0));
        let magazine = magazine.unwrap_or_else(|| (depot.slab)(depot.length));
        // A thread that has ended may have left a shorter one. Then the count is too high when the magazine is empty,
        // and a later spare one is shorter than others.
        self.count = depot.length;
        if !(depot.register)() {
            // No destructor would empty this cache any more: it keeps one piece and returns the others. SAFETY: a
            // magazine owns its pieces.
            let rest = unsafe { magazine.as_ref() }.0.swap(ptr::null_mut(), Ordering::Relaxed);
            NonNull::new(rest).into_iter().for_each(|rest| depot.magazines.push(Magazine(rest)));
        }
        magazine
    }

    /// Called when the thread ends.
    pub(crate) fn leave(&mut self, depot: &Depot) {
        let loaded = NonNull::new(std::mem::replace(&mut self.loaded, ptr::null_mut()));
        self.count = 0;
        for magazine in loaded.into_iter().chain(std::iter::from_fn(|| self.take_spare())) {
            depot.magazines.push(Magazine(magazine));
        }
    }
}

/// Links the `count` pieces of `size` bytes that begin at `memory`.
///
/// # Safety
/// The memory is valid, aligned for a [`FreeLink`] at every piece, and owned by the caller.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::arena::permanent;

    const LENGTH: usize = 8;

    /// Mutation: a cache with one spare magazine, so that the others go through the depot.
    #[test]
    fn of_a_burst_that_a_thread_has_given_back_it_takes_the_last_first() {
        // SAFETY: the memory was just taken, and is aligned to a cache line.
        let slab = |count| unsafe { link(permanent(count * size_of::<FreeLink>()), count, size_of::<FreeLink>()) };
        // A depot of its own: in a shared one, threads that have ended leave shorter magazines. The burst fills the
        // loaded magazine and four spare ones.
        let (depot, mut cache) = (Depot::new(LENGTH, slab, || true), ThreadCache::EMPTY);
        let taken: Vec<_> = (0..5 * LENGTH).map(|_| cache.take(&depot)).collect();
        // SAFETY: each was taken from this cache, and is not used any more.
        taken.iter().for_each(|&piece| unsafe { cache.add(&depot, piece) });
        assert!(taken.iter().rev().all(|&piece| cache.take(&depot) == piece));
    }
}
