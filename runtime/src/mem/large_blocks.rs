//! Blocks of one to eight kibibytes. They come from the program's allocator, and are recycled through
//! [magazines](super::magazine).
//!
//! A stream of large messages has hundreds of them in flight, and allocates blocks on one thread that it frees on
//! another: `malloc` and `free` take 600 instructions for such a message, and more time when they run on different
//! threads.
//!
//! Unlike smaller blocks (see [`size_classes`](super::size_classes)), these are freed: otherwise a past backlog of
//! thousands of large messages would occupy its memory forever. So threads and depots keep a bounded number of blocks,
//! and [`release`] frees those in the depots when a host becomes idle.

use super::magazine::{Depot, FreeLink, Magazine, ThreadCache};
use super::poison;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::ptr::NonNull;

/// The sizes of the blocks: round numbers of bytes, plus some room for the data that accompanies a buffer of that size.
const SIZES: [usize; 4] = [1_088, 2_112, 4_160, 8_256];
/// The alignment that all allocators guarantee by default.
const ALIGN: usize = 16;

/// The number of bytes of each size that move between a thread and the program at a time. With its spare magazines a
/// thread keeps five times as much, which is less than a core's second-level cache. A guess.
const MAGAZINE_BYTES: usize = 32 << 10;

/// The number of bytes of each size that the program keeps in addition: a default mailbox full of messages of 4 KiB.
const DEPOT_BYTES: usize = 4 << 20;

static DEPOTS: [Depot; SIZES.len()] = [depot(0), depot(1), depot(2), depot(3)];

const fn depot(class: usize) -> Depot {
    let length = MAGAZINE_BYTES / SIZES[class];
    Depot::bounded(length, DEPOT_BYTES / (length * SIZES[class]), || FLUSH.try_with(|_| ()).is_ok())
}

/// Returns the class of a layout, or `None` if no block of these sizes fits it.
#[inline(always)]
pub(crate) const fn class_of(layout: Layout) -> Option<usize> {
    match layout.size() {
        _ if layout.align() > ALIGN => None,
        513..=1_088 => Some(0),
        1_089..=2_112 => Some(1),
        2_113..=4_160 => Some(2),
        4_161..=8_256 => Some(3),
        _ => None,
    }
}

thread_local! {
    static CACHES: UnsafeCell<[ThreadCache; SIZES.len()]> =
        const { UnsafeCell::new([const { ThreadCache::EMPTY }; SIZES.len()]) };
    /// Returns the thread's blocks to the program when the thread ends. It is separate from the caches, because other
    /// destructors use the caches.
    static FLUSH: FlushLargeBlocks = const { FlushLargeBlocks };
}

struct FlushLargeBlocks;

impl Drop for FlushLargeBlocks {
    fn drop(&mut self) {
        for (class, depot) in DEPOTS.iter().enumerate() {
            while let Some(surplus) = with_cache(class, |cache| cache.leave(depot)) {
                free(class, surplus);
            }
        }
    }
}

#[inline]
fn with_cache<R>(class: usize, body: impl FnOnce(&mut ThreadCache) -> R) -> R {
    // Only the address is obtained in the closure: a large closure would make the thread-local access a function call.
    let caches = CACHES.with(|caches| caches.get());
    // SAFETY: the caches belong to this thread alone and need no destructor; no body here calls foreign code that
    // could re-enter, such as the allocator.
    body(unsafe { &mut (*caches)[class] })
}

#[inline]
pub(crate) fn take(class: usize) -> NonNull<u8> {
    // This has only one branch and one call. With more, the compiler copies a message an additional time on its way to
    // its block.
    match with_cache(class, ThreadCache::take_if_loaded) {
        Some(block) => {
            poison::taken(block.cast(), SIZES[class]);
            block.cast()
        }
        None => take_more(class),
    }
}

#[cold]
#[inline(never)]
fn take_more(class: usize) -> NonNull<u8> {
    match with_cache(class, |cache| cache.take_kept(&DEPOTS[class])) {
        Some(block) => {
            poison::taken(block.cast(), SIZES[class]);
            block.cast()
        }
        None => allocate(class),
    }
}

/// Frees a block or keeps it for reuse.
///
/// # Safety
/// The block was taken as one of this class, and is no longer used.
#[inline]
pub(crate) unsafe fn give_back(class: usize, block: NonNull<u8>) {
    // This must precede `add`, because afterwards another thread can take the block.
    poison::given_back(block, size_of::<FreeLink>(), SIZES[class]);
    // SAFETY: the caller's promise.
    let surplus = with_cache(class, |cache| unsafe { cache.add(&DEPOTS[class], block.cast()) });
    if let Some(surplus) = surplus {
        free(class, surplus);
    }
}

/// Frees some of the blocks in the depots. Returns whether there were any.
pub(crate) fn release() -> bool {
    let magazines = DEPOTS.iter().enumerate().filter_map(|(class, depot)| Some((class, depot.get()?)));
    magazines.map(|(class, magazine)| free(class, magazine)).count() > 0
}

fn layout(class: usize) -> Layout {
    Layout::from_size_align(SIZES[class], ALIGN).unwrap_or_else(|_| unreachable!("small, and aligned to 16"))
}

fn allocate(class: usize) -> NonNull<u8> {
    let layout = layout(class);
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cold]
fn free(class: usize, magazine: Magazine) {
    for block in magazine {
        poison::taken(block.cast(), SIZES[class]);
        // SAFETY: the magazine owned the block, and the blocks of this class were allocated with this layout.
        unsafe { dealloc(block.cast().as_ptr(), layout(class)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;
    use crate::sync::{Mutex, lock};
    use std::collections::HashSet;
    use std::time::{Duration, Instant};

    /// The class that only one test at a time allocates from. (Tests of other modules use the fourth one.)
    static SECOND: Mutex<usize> = Mutex::new(1);

    /// Runs `body` on a new thread, whose cache no other test uses.
    fn apart(body: impl FnOnce() + Send + 'static) {
        std::thread::spawn(body).join().unwrap();
    }

    #[test]
    fn a_block_freed_last_is_taken_first() {
        let _second = lock(&SECOND);
        apart(|| {
            for (class, size) in SIZES.into_iter().enumerate() {
                // A number of blocks that is sure to stay with the thread. (Other tests use the depot.)
                let most = 4 * (MAGAZINE_BYTES / size);
                let taken: Vec<_> = (0..most).map(|_| take(class)).collect();
                assert_eq!(taken.iter().collect::<HashSet<_>>().len(), taken.len());
                for block in &taken {
                    // SAFETY: taken with that size.
                    unsafe { block.write_bytes(1, size) };
                }
                // SAFETY: taken above, and no longer used.
                taken.iter().for_each(|&block| unsafe { give_back(class, block) });
                let again: Vec<_> = (0..most).map(|_| take(class)).collect();
                assert!(again.iter().eq(taken.iter().rev()));
                // SAFETY: as above.
                again.into_iter().for_each(|block| unsafe { give_back(class, block) });
            }
        });
    }

    struct Taken(Vec<NonNull<u8>>);

    // SAFETY: blocks belong to the thread that has taken them.
    unsafe impl Send for Taken {}

    /// Takes `count` blocks, and frees them on a thread that then ends. Returns their addresses.
    fn take_and_give_back(class: usize, count: usize) -> HashSet<usize> {
        let taken = Taken((0..count).map(|_| take(class)).collect());
        let addresses = taken.0.iter().map(|block| block.addr().get()).collect();
        apart(move || {
            let taken = taken;
            // SAFETY: taken above, and no longer used.
            taken.0.into_iter().for_each(|block| unsafe { give_back(class, block) });
        });
        addresses
    }

    /// Catches: a thread that frees its blocks when it ends.
    #[test]
    fn blocks_given_back_on_another_thread_serve_again() {
        let second = lock(&SECOND);
        let class = *second;
        let come_back = || {
            let given = take_and_give_back(class, 100);
            // None of these comes from the allocator, which could return the same addresses again.
            let again = std::iter::from_fn(|| with_cache(class, |cache| cache.take_kept(&DEPOTS[class])));
            let again: Vec<_> = again.collect();
            let count = again.iter().filter(|block| given.contains(&block.addr().get())).count();
            // SAFETY: taken above, and no longer used.
            again.into_iter().for_each(|block| unsafe { give_back(class, block.cast()) });
            count
        };
        // The watchdog of another test's host may have freed some of them, but not in every attempt.
        assert!((0..50).any(|_| come_back() > 90), "too few came back");
    }

    /// Catches: a watchdog that frees nothing when it rests. (Only a run of this test alone detects it: hosts of other
    /// tests rest too.)
    #[test]
    fn a_host_that_has_become_idle_frees_what_the_depots_keep() {
        let second = lock(&SECOND);
        let class = *second;
        take_and_give_back(class, 200);
        let _runtime = Runtime::builder().workers(1).build().expect("one worker");
        let end = Instant::now() + Duration::from_secs(60);
        while !DEPOTS[class].magazines.is_empty() {
            assert!(Instant::now() < end, "{} magazines are left", DEPOTS[class].magazines.len());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Catches: a block that is freed twice. (A leak check detects blocks that are kept where nothing will free them.)
    #[test]
    fn blocks_can_be_taken_and_freed_in_the_destructors_of_a_thread() {
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                let blocks = [take(0), take(0)];
                // SAFETY: just taken, and no longer used.
                blocks.into_iter().for_each(|block| unsafe { give_back(0, block) });
            }
        }
        thread_local!(static LATE: Late = const { Late });
        for is_first in [true, false] {
            apart(move || {
                let touch = || LATE.with(|_| ());
                if is_first {
                    touch();
                }
                // SAFETY: just taken, and no longer used.
                unsafe { give_back(0, take(0)) };
                touch();
            });
        }
    }

    #[test]
    fn classes_hold_their_layouts() {
        for size in [513, 1_088, 1_089, 2_112, 4_096, 4_160, 4_161, 8_256] {
            let class = class_of(Layout::from_size_align(size, 16).unwrap()).unwrap();
            assert!(SIZES[class] >= size && (class == 0 || SIZES[class - 1] < size));
        }
        for (size, align) in [(512, 8), (8_257, 8), (4_096, 32)] {
            assert_eq!(class_of(Layout::from_size_align(size, align).unwrap()), None);
        }
    }
}
