//! Free pieces of memory of one size, cached by each thread and exchanged between threads in magazines.
//!
//! A thread has a loaded magazine and up to [`SPARES`] full spare ones. Further full magazines go to the program's
//! depot. A thread without a full magazine takes one from the depot, and allocates memory only if the depot is empty.
//! So a piece costs a few plain loads and stores, whichever threads take and free it, and one queue operation per
//! magazine.
//!
//! The spare magazines form a stack: the pieces freed last are taken first, while they are still in the core's cache.
//! (The depot is a queue. With one spare magazine, as in the paper, a burst of a thousand messages went through the
//! depot, so even a single thread cycled through all the memory that it had ever needed.)
//!
//! Small pieces are carved from slabs and never freed: their memory stays at its high-water mark. Large ones come from
//! the program's allocator, one at a time, and their depot keeps a bounded number of magazines. Magazines beyond the
//! bound are *surplus*, and the caller frees them. A thread that ends gives its magazines to the depot.
//!
//! # The bound
//!
//! * *reserve*: a thread that adds a magazine to a bounded depot first increments the count. If the count had already
//!   reached the bound, it decrements the count again, and the magazine is surplus. *push*: otherwise it adds the
//!   magazine to the queue.
//! * *pop*: a thread takes a magazine from the queue. *release*: it then decrements the count.
//!
//! Each magazine in the queue is counted from before its push until after its pop, so there are never more of them than
//! the bound. The count does not fall below zero: the order of the queue places a release after the reserve of the same
//! magazine. The count may be too high for a moment: then a magazine is freed although there was room for it. The count
//! orders no memory accesses; the queue synchronizes the transfer of the pieces. A model is in `tests/models`.
//!
//! Source: Bonwick and Adams, Magazines and Vmem, 2001.

use crate::sync::{AtomicPtr, AtomicUsize, Ordering, SegQueue};
use std::ptr::{self, NonNull};

/// The first word of a free piece: a pointer to the next free one. It is atomic, because holders of a stale pointer may
/// read it at any time (see `mailbox::node`).
#[repr(transparent)]
pub(crate) struct FreeLink(AtomicPtr<FreeLink>);

impl FreeLink {
    pub(crate) fn new(next: *mut Self) -> Self {
        Self(AtomicPtr::new(next))
    }

    /// Returns the next free piece. This is a plain read, because an atomic one would keep the compiler from moving a
    /// large message directly into its piece.
    ///
    /// # Safety
    /// The caller owns the piece, so no other thread writes to it.
    #[inline(always)]
    unsafe fn next(&self) -> *mut Self {
        #[cfg(loom)]
        return self.0.load(Ordering::Relaxed);
        // SAFETY: the pointer is valid, and other threads only read this word. A process or thread that gives up its
        // call may write here, but not once `call_id::close` has run.
        #[cfg(not(loom))]
        return unsafe { self.0.as_ptr().read() };
    }
}

/// The number of full magazines that a thread keeps. With the loaded one, they hold at least as many nodes as a default
/// mailbox holds messages.
const SPARES: usize = 4;

/// A magazine: linked free pieces. Iterating takes them out; pieces left when the magazine is dropped are leaked.
pub(crate) struct Magazine(*mut FreeLink);

// SAFETY: a magazine owns its pieces.
unsafe impl Send for Magazine {}

impl Iterator for Magazine {
    type Item = NonNull<FreeLink>;

    fn next(&mut self) -> Option<NonNull<FreeLink>> {
        let piece = NonNull::new(self.0)?;
        // SAFETY: the magazine owns its pieces.
        self.0 = unsafe { piece.as_ref().next() };
        Some(piece)
    }
}

/// The program's magazines of one size.
pub(crate) struct Depot {
    pub(crate) magazines: SegQueue<Magazine>,
    /// The number of pieces in a full magazine.
    pub(crate) length: usize,
    pub(crate) bound: Option<DepotBound>,
    /// Arranges that [`ThreadCache::leave`] is called when the calling thread ends. Returns false if it is too late to
    /// do so.
    pub(crate) register: fn() -> bool,
}

/// The maximum number of magazines, and the number currently counted.
pub(crate) struct DepotBound {
    pub(crate) most: usize,
    pub(crate) count: AtomicUsize,
}

// Loom's types cannot be constructed in constants.
#[cfg(not(loom))]
impl Depot {
    /// Creates a depot that keeps all magazines.
    pub(crate) const fn new(length: usize, register: fn() -> bool) -> Self {
        Self { magazines: SegQueue::new(), length, bound: None, register }
    }

    /// Creates a depot that keeps at most `most` magazines.
    pub(crate) const fn bounded(length: usize, most: usize, register: fn() -> bool) -> Self {
        let bound = Some(DepotBound { most, count: AtomicUsize::new(0) });
        Self { magazines: SegQueue::new(), length, bound, register }
    }
}

impl Depot {
    /// Adds a magazine. Returns it if it is surplus.
    pub(crate) fn put(&self, first: NonNull<FreeLink>) -> Option<Magazine> {
        let magazine = Magazine(first.as_ptr());
        if let Some(DepotBound { most, count }) = &self.bound {
            // *reserve*
            if count.fetch_add(1, Ordering::Relaxed) >= *most {
                count.fetch_sub(1, Ordering::Relaxed);
                return Some(magazine);
            }
        }
        // *push*
        self.magazines.push(magazine);
        None
    }

    /// Takes a magazine, if there is one.
    pub(crate) fn get(&self) -> Option<Magazine> {
        // *pop*
        let magazine = self.magazines.pop()?;
        if let Some(bound) = &self.bound {
            // *release*
            bound.count.fetch_sub(1, Ordering::Relaxed);
        }
        Some(magazine)
    }
}

/// A thread's magazines of one size.
pub(crate) struct ThreadCache {
    /// The loaded magazine, from which pieces are taken and to which they are added.
    loaded: *mut FreeLink,
    count: usize,
    /// The full magazines, the most recently added one last.
    spares: [*mut FreeLink; SPARES],
    spare: usize,
}

impl ThreadCache {
    pub(crate) const EMPTY: Self =
        Self { loaded: ptr::null_mut(), count: 0, spares: [ptr::null_mut(); SPARES], spare: 0 };

    /// Takes a piece. If there is none, calls `slab`, which returns a linked list of the given number of new pieces.
    #[inline]
    pub(crate) fn take(&mut self, depot: &Depot, slab: fn(usize) -> NonNull<FreeLink>) -> NonNull<FreeLink> {
        let first = NonNull::new(self.loaded).unwrap_or_else(|| self.refill(depot, slab));
        self.take_loaded(first)
    }

    /// Takes a piece from the loaded magazine, if there is one.
    #[inline(always)]
    pub(crate) fn take_if_loaded(&mut self) -> Option<NonNull<FreeLink>> {
        let first = NonNull::new(self.loaded)?;
        Some(self.take_loaded(first))
    }

    /// Takes a piece from the cache or the depot, if there is one.
    pub(crate) fn take_kept(&mut self, depot: &Depot) -> Option<NonNull<FreeLink>> {
        let first = NonNull::new(self.loaded).or_else(|| self.reload(depot))?;
        Some(self.take_loaded(first))
    }

    #[inline(always)]
    fn take_loaded(&mut self, first: NonNull<FreeLink>) -> NonNull<FreeLink> {
        // SAFETY: the cache owns its pieces.
        self.loaded = unsafe { first.as_ref().next() };
        self.count = self.count.wrapping_sub(1);
        first
    }

    /// Frees a piece. Returns a surplus magazine, if there is one. If the depot has no bound, there is none.
    ///
    /// # Safety
    /// The piece was taken from a cache of the same depot, or allocated for it, and is no longer used, except for
    /// reads of its first word.
    #[inline]
    pub(crate) unsafe fn add(&mut self, depot: &Depot, piece: NonNull<FreeLink>) -> Option<Magazine> {
        if self.loaded.is_null() || self.count == depot.length {
            return self.add_first(depot, piece);
        }
        // SAFETY: the caller gives the piece up.
        unsafe { piece.as_ref() }.0.store(self.loaded, Ordering::Relaxed);
        self.loaded = piece.as_ptr();
        self.count += 1;
        None
    }

    /// Starts a new magazine with the piece, since the loaded one is empty or full. A full one becomes a spare or goes
    /// to the depot.
    #[cold]
    fn add_first(&mut self, depot: &Depot, piece: NonNull<FreeLink>) -> Option<Magazine> {
        // SAFETY: the caller gives the piece up.
        unsafe { piece.as_ref() }.0.store(ptr::null_mut(), Ordering::Relaxed);
        if !(depot.register)() {
            // No destructor will empty this cache any more.
            return depot.put(piece);
        }
        let full = NonNull::new(std::mem::replace(&mut self.loaded, piece.as_ptr()));
        self.count = 1;
        let full = full?;
        match self.spares.get_mut(self.spare) {
            Some(place) => {
                *place = full.as_ptr();
                self.spare += 1;
                None
            }
            None => depot.put(full),
        }
    }

    fn take_spare(&mut self) -> Option<NonNull<FreeLink>> {
        self.spare = self.spare.checked_sub(1)?;
        NonNull::new(self.spares[self.spare])
    }

    /// Takes a spare magazine, or else one from the depot, to replace the empty loaded one.
    fn next_magazine(&mut self, depot: &Depot) -> Option<NonNull<FreeLink>> {
        self.take_spare().or_else(|| NonNull::new(depot.get()?.0))
    }

    /// Loads another magazine, made of new memory if necessary, to replace the empty one. Returns its first piece.
    #[cold]
    fn refill(&mut self, depot: &Depot, slab: fn(usize) -> NonNull<FreeLink>) -> NonNull<FreeLink> {
        let magazine = self.next_magazine(depot).unwrap_or_else(|| slab(depot.length));
        // A thread that has ended may have left a shorter magazine. Then the count is too high when the magazine is
        // empty, and a later spare one is shorter than the others.
        self.count = depot.length;
        if !(depot.register)() {
            // No destructor will empty this cache any more: it keeps one piece and returns the others. SAFETY: a
            // magazine owns its pieces.
            let rest = unsafe { magazine.as_ref() }.0.swap(ptr::null_mut(), Ordering::Relaxed);
            NonNull::new(rest).into_iter().for_each(|rest| depot.magazines.push(Magazine(rest.as_ptr())));
        }
        magazine
    }

    /// Loads another magazine to replace the empty one, if there is another and a destructor will empty this cache.
    /// Returns the first piece of that magazine.
    #[cold]
    fn reload(&mut self, depot: &Depot) -> Option<NonNull<FreeLink>> {
        let magazine = (depot.register)().then(|| self.next_magazine(depot))??;
        // The magazine may be shorter: see `refill`.
        self.count = depot.length;
        Some(magazine)
    }

    /// Gives the magazines of a thread that ends to the depot. If one is surplus, returns it; the next call continues
    /// with the others.
    pub(crate) fn leave(&mut self, depot: &Depot) -> Option<Magazine> {
        self.count = 0;
        loop {
            let loaded = NonNull::new(std::mem::replace(&mut self.loaded, ptr::null_mut()));
            if let Some(surplus) = depot.put(loaded.or_else(|| self.take_spare())?) {
                return Some(surplus);
            }
        }
    }
}

/// Links the `count` pieces of `size` bytes that start at `memory`.
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mem::arena::permanent;

    const LENGTH: usize = 8;

    /// Catches: a cache with only one spare magazine, which sends the others through the depot.
    #[test]
    fn of_a_burst_that_a_thread_has_given_back_it_takes_the_last_first() {
        // SAFETY: the memory was just taken, and is aligned to a cache line.
        let slab: fn(usize) -> _ =
            |count| unsafe { link(permanent(count * size_of::<FreeLink>()), count, size_of::<FreeLink>()) };
        // The depot is separate: in a shared one, threads that have ended leave shorter magazines. The burst fills the
        // loaded magazine and four spare ones.
        let (depot, mut cache) = (Depot::new(LENGTH, || true), ThreadCache::EMPTY);
        let taken: Vec<_> = (0..5 * LENGTH).map(|_| cache.take(&depot, slab)).collect();
        // SAFETY: each was taken from this cache, and is no longer used.
        taken.iter().for_each(|&piece| assert!(unsafe { cache.add(&depot, piece) }.is_none()));
        assert!(taken.iter().rev().all(|&piece| cache.take(&depot, slab) == piece));
    }
    /// Catches: a surplus that is dropped, or that is only the piece that was added; a magazine that stays counted
    /// after it is taken.
    #[test]
    fn a_bounded_depot_keeps_so_many_magazines_and_the_others_come_back() {
        const MOST: usize = 2;
        let (depot, mut cache) = (Depot::bounded(LENGTH, MOST, || true), ThreadCache::EMPTY);
        assert!(cache.take_kept(&depot).is_none());
        // SAFETY: the memory was just taken, and is aligned to a cache line.
        let pieces =
            unsafe { link(permanent(16 * LENGTH * size_of::<FreeLink>()), 16 * LENGTH, size_of::<FreeLink>()) };
        let mut pieces = Magazine(pieces.as_ptr());
        let mut add = |cache: &mut ThreadCache, count| {
            // SAFETY: each is added once, and no longer used.
            let surplus = pieces.by_ref().take(count).filter_map(|piece| unsafe { cache.add(&depot, piece) });
            surplus.map(Iterator::count).collect::<Vec<_>>()
        };
        let kept = 1 + SPARES + MOST;
        assert_eq!(add(&mut cache, kept * LENGTH), [0; 0]);
        assert_eq!(add(&mut cache, LENGTH + 1), [LENGTH, LENGTH]);
        assert_eq!(depot.get().map(Iterator::count), Some(LENGTH));
        assert_eq!(add(&mut cache, 2 * LENGTH), [LENGTH], "there was room for one");
        // The depot is full, so it accepts none of the thread's five magazines.
        let surplus: Vec<_> = std::iter::from_fn(|| cache.leave(&depot)).map(Iterator::count).collect();
        assert_eq!(surplus.len(), 1 + SPARES);
        assert!(cache.take_kept(&depot).is_some());
        let rest = std::iter::from_fn(|| cache.take_kept(&depot)).count();
        assert_eq!(rest, MOST * LENGTH - 1);
    }

    /// Catches: a thread that loads a magazine after its destructors have run.
    #[test]
    fn a_thread_that_is_too_late_to_return_its_pieces_keeps_none() {
        let (depot, mut cache) = (Depot::bounded(LENGTH, 1, || false), ThreadCache::EMPTY);
        // SAFETY: the memory was just taken, and is aligned to a cache line.
        let mut pieces = Magazine(unsafe { link(permanent(2 * 8), 2, 8) }.as_ptr());
        let mut next = || pieces.next().unwrap();
        // SAFETY: they are added once, and no longer used.
        let surplus = unsafe { [cache.add(&depot, next()), cache.add(&depot, next())] };
        assert_eq!(surplus.map(|surplus| surplus.map(Iterator::count)), [None, Some(1)]);
        assert!(cache.take_kept(&depot).is_none() && depot.get().is_some());
    }
}
