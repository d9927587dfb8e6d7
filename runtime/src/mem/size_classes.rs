//! An allocator for process states, and for messages too large for their nodes.
//!
//! Blocks come in five sizes, from caches of the calling thread. [Larger](super::large_blocks) or more strictly aligned
//! ones come from the program's allocator. So neither a spawn nor a message allocates in steady state, and blocks that
//! are freed on a thread other than the one that took them are returned in batches. (With the system's allocator, each
//! such block costs 79 ns.) The memory of blocks stays at its high-water mark. For this reason, their size is limited.

use super::arena::permanent;
use super::large_blocks;
use super::magazine::{Depot, FreeLink, ThreadCache, link};
use super::poison;
use std::alloc::{Layout, alloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::ptr::NonNull;

/// The sizes, each a multiple of its alignment. The first fits a process with one word of state.
const SIZES: [usize; 5] = [48, 64, 128, 256, 512];
/// The alignment of the first size.
const SMALL_ALIGN: usize = 16;
/// The alignment of the other sizes.
const ALIGN: usize = 64;

/// The number of bytes that move between a thread and the program at a time.
const MAGAZINE_BYTES: usize = 16 << 10;

static DEPOTS: [Depot; SIZES.len()] = [depot::<48>(), depot::<64>(), depot::<128>(), depot::<256>(), depot::<512>()];
/// The functions that create new pieces of each size.
const SLABS: [fn(usize) -> NonNull<FreeLink>; SIZES.len()] =
    [slab::<48>, slab::<64>, slab::<128>, slab::<256>, slab::<512>];

const fn depot<const SIZE: usize>() -> Depot {
    Depot::new(MAGAZINE_BYTES / SIZE, || FLUSH.try_with(|_| ()).is_ok())
}

thread_local! {
    static CACHES: UnsafeCell<[ThreadCache; SIZES.len()]> =
        const { UnsafeCell::new([const { ThreadCache::EMPTY }; SIZES.len()]) };
    /// Returns the thread's blocks to the program when the thread ends. It is separate from the caches, so that the
    /// caches need no destructor and can be used in other destructors.
    static FLUSH: FlushBlocks = const { FlushBlocks };
}

struct FlushBlocks;

impl Drop for FlushBlocks {
    fn drop(&mut self) {
        for (class, depot) in DEPOTS.iter().enumerate() {
            let _none = with_cache(class, |cache| cache.leave(depot));
        }
    }
}

#[inline]
fn with_cache<R>(class: usize, body: impl FnOnce(&mut ThreadCache) -> R) -> R {
    // Only the address is obtained in the closure: a large closure would make the thread-local access a function call.
    let caches = CACHES.with(|caches| caches.get());
    // SAFETY: the caches belong to this thread alone and need no destructor; no body here calls foreign code that
    // could re-enter.
    body(unsafe { &mut (*caches)[class] })
}

#[inline]
const fn class_of(layout: Layout) -> Option<usize> {
    match layout.size() {
        _ if layout.align() > ALIGN => None,
        0..=48 if layout.align() <= SMALL_ALIGN => Some(0),
        0..=64 => Some(1),
        65..=128 => Some(2),
        129..=256 => Some(3),
        257..=512 => Some(4),
        _ => None,
    }
}

#[inline]
pub(crate) fn take(layout: Layout) -> NonNull<u8> {
    match class_of(layout) {
        Some(class) => {
            let block = with_cache(class, |cache| cache.take(&DEPOTS[class], SLABS[class])).cast();
            poison::taken(block, SIZES[class]);
            block
        }
        None => match large_blocks::class_of(layout) {
            Some(class) => large_blocks::take(class),
            None => allocate(layout),
        },
    }
}

/// Frees memory.
///
/// # Safety
/// The memory was taken with this layout, and is no longer used.
#[inline]
pub(crate) unsafe fn give_back(memory: NonNull<u8>, layout: Layout) {
    match class_of(layout) {
        Some(class) => {
            // This must precede `add`, because afterwards another thread can take the block.
            poison::given_back(memory, size_of::<FreeLink>(), SIZES[class]);
            // SAFETY: the caller's promise.
            let _none = with_cache(class, |cache| unsafe { cache.add(&DEPOTS[class], memory.cast()) });
        }
        None => match large_blocks::class_of(layout) {
            // SAFETY: the caller's promise.
            Some(class) => unsafe { large_blocks::give_back(class, memory) },
            // SAFETY: the caller's promise; the memory was allocated with this layout.
            None => unsafe { std::alloc::dealloc(memory.as_ptr(), not_empty(layout)) },
        },
    }
}

/// Replaces size zero, because the allocator refuses it. (A type can be empty and highly aligned.)
fn not_empty(layout: Layout) -> Layout {
    if layout.size() == 0 { layout_of(layout.align(), layout.align()) } else { layout }
}

#[cold]
fn allocate(layout: Layout) -> NonNull<u8> {
    let layout = not_empty(layout);
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

fn layout_of(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap_or_else(|_| unreachable!("small, and aligned to a power of two"))
}

fn slab<const SIZE: usize>(count: usize) -> NonNull<FreeLink> {
    let memory = permanent(count * SIZE);
    // SAFETY: the memory was just taken, and has room for `count` pieces of that size.
    unsafe { link(memory, count, SIZE) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn blocks_of_every_layout_are_distinct_aligned_and_come_back() {
        for (size, align) in [
            (0, 1),
            (0, 256),
            (1, 1),
            (48, 16),
            (40, 32),
            (64, 8),
            (65, 64),
            (200, 16),
            (512, 64),
            (513, 8),
            (100, 128),
            (1 << 20, 4096),
        ] {
            let layout = layout_of(size, align);
            let taken: Vec<_> = (0..600).map(|_| take(layout)).take(if size > 4096 { 3 } else { 600 }).collect();
            let distinct: HashSet<_> = taken.iter().collect();
            assert_eq!(distinct.len(), taken.len());
            for (number, block) in taken.iter().enumerate() {
                assert_eq!(block.addr().get() % align, 0);
                // SAFETY: taken with room for `size` bytes.
                unsafe { block.write_bytes(number as u8, size) };
            }
            for (number, block) in taken.iter().enumerate().filter(|_| size > 0) {
                // SAFETY: just written.
                assert_eq!(unsafe { block.add(size - 1).read() }, number as u8);
            }
            // SAFETY: taken above, and no longer used.
            taken.into_iter().for_each(|block| unsafe { give_back(block, layout) });
        }
    }

    #[test]
    fn blocks_given_back_on_another_thread_serve_again() {
        struct Taken(Vec<NonNull<u8>>);
        // SAFETY: blocks belong to the thread that has taken them.
        unsafe impl Send for Taken {}
        let layout = layout_of(300, 8);
        let come_back = |count: usize| {
            let taken = Taken((0..count).map(|_| take(layout)).collect());
            let given: HashSet<_> = taken.0.iter().map(|block| block.addr()).collect();
            let giver = std::thread::spawn(move || {
                let taken = taken;
                // SAFETY: taken above, and no longer used.
                taken.0.into_iter().for_each(|block| unsafe { give_back(block, layout) });
            });
            giver.join().unwrap();
            (0..2_000).map(|_| take(layout)).filter(|block| given.contains(&block.addr())).count()
        };
        // The smaller count is less than a magazine: a thread that frees blocks but takes none must not keep them.
        // Other tests take blocks of this size at the same time, and may be the first to get a magazine, but not in
        // every attempt.
        for count in [10, 1_000] {
            assert!((0..50).any(|_| come_back(count) > count * 9 / 10), "of {count} too few came back");
        }
    }
}
