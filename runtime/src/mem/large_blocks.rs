//! Blocks of one to eight kibibytes: from the program's allocator, recycled through [magazines](super::magazine).
//!
//! A stream of large messages has hundreds of them on their way, and takes blocks on one thread that it frees on
//! another: `malloc` and `free` are 600 instructions for such a message, and slower still between threads.
//!
//! Unlike smaller ones (see [`size_classes`](super::size_classes)), blocks are freed: thousands of large messages that
//! have once waited somewhere would otherwise hold their memory for ever. So what threads and depots keep is bounded,
//! and [`release`] frees what the depots have when a host has become idle.

use super::magazine::{Depot, FreeLink, Magazine, ThreadCache};
use super::poison;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::ptr::NonNull;

/// A round number of bytes, and a little for what comes with a buffer of that size.
const SIZES: [usize; 4] = [1_088, 2_112, 4_160, 8_256];
/// What all allocators give unasked.
const ALIGN: usize = 16;

/// How many bytes of each size move between a thread and the program at a time. With the spare magazines, a thread
/// keeps five times as much, which is less than a core's second-level cache. A guess.
const MAGAZINE_BYTES: usize = 32 << 10;

/// How many bytes of each size the program keeps besides: a default mailbox full of messages of 4 KiB.
const DEPOT_BYTES: usize = 4 << 20;

static DEPOTS: [Depot; SIZES.len()] = [depot(0), depot(1), depot(2), depot(3)];

const fn depot(class: usize) -> Depot {
    let length = MAGAZINE_BYTES / SIZES[class];
    Depot::bounded(length, DEPOT_BYTES / (length * SIZES[class]), || FLUSH.try_with(|_| ()).is_ok())
}

/// The class of a layout, if its blocks are of this kind.
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
    /// Returns the thread's blocks to the program when it ends. Apart from the caches, which other destructors use.
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
    // The address alone: a large closure makes the access of the thread's variable a call.
    let caches = CACHES.with(|caches| caches.get());
    // SAFETY: the caches are this thread's alone, and need no destructor; no body here calls foreign code that could
    // re-enter, such as the allocator.
    body(unsafe { &mut (*caches)[class] })
}

#[inline]
pub(crate) fn take(class: usize) -> NonNull<u8> {
    // One branch and one call: with more, the compiler copies a message once more on its way to its block.
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

/// Frees a block, or keeps it.
///
/// # Safety
/// It was taken as one of this class, and is not used any more.
#[inline]
pub(crate) unsafe fn give_back(class: usize, block: NonNull<u8>) {
    // Before another thread can take it.
    poison::given_back(block, size_of::<FreeLink>(), SIZES[class]);
    // SAFETY: the caller's promise.
    let surplus = with_cache(class, |cache| unsafe { cache.add(&DEPOTS[class], block.cast()) });
    if let Some(surplus) = surplus {
        free(class, surplus);
    }
}

/// Frees some of what the depots keep. Returns whether there was something.
pub(crate) fn release() -> bool {
    let magazines = DEPOTS.iter().enumerate().filter_map(|(class, depot)| Some((class, depot.get()?)));
    magazines.map(|(class, magazine)| free(class, magazine)).count() > 0
}

fn layout(class: usize) -> Layout {
    Layout::from_size_align(SIZES[class], ALIGN).unwrap_or_else(|_| unreachable!("small, and aligned to 16"))
}

fn allocate(class: usize) -> NonNull<u8> {
    let layout = layout(class);
    // SAFETY: not of size zero.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cold]
fn free(class: usize, magazine: Magazine) {
    for block in magazine {
        poison::taken(block.cast(), SIZES[class]);
        // SAFETY: the magazine owned it, and the blocks of this class were allocated with this layout.
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

    /// The class whose blocks come and go in one test at a time. (Tests of other modules use the fourth one.)
    static SECOND: Mutex<usize> = Mutex::new(1);

    /// On a thread of its own, whose cache no other test uses.
    fn apart(body: impl FnOnce() + Send + 'static) {
        std::thread::spawn(body).join().unwrap();
    }

    #[test]
    fn a_block_freed_last_is_taken_first() {
        let _second = lock(&SECOND);
        apart(|| {
            for (class, size) in SIZES.into_iter().enumerate() {
                // As many as surely stay with the thread. (Other tests use the depot.)
                let most = 4 * (MAGAZINE_BYTES / size);
                let taken: Vec<_> = (0..most).map(|_| take(class)).collect();
                assert_eq!(taken.iter().collect::<HashSet<_>>().len(), taken.len());
                for block in &taken {
                    // SAFETY: taken with that size.
                    unsafe { block.write_bytes(1, size) };
                }
                // SAFETY: taken above, and not used any more.
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

    /// Takes so many blocks, and gives them back on a thread that ends. Returns their addresses.
    fn take_and_give_back(class: usize, count: usize) -> HashSet<usize> {
        let taken = Taken((0..count).map(|_| take(class)).collect());
        let addresses = taken.0.iter().map(|block| block.addr().get()).collect();
        apart(move || {
            let taken = taken;
            // SAFETY: taken above, and not used any more.
            taken.0.into_iter().for_each(|block| unsafe { give_back(class, block) });
        });
        addresses
    }

    /// Mutation: a thread that ends frees its blocks.
    #[test]
    fn blocks_given_back_on_another_thread_serve_again() {
        let second = lock(&SECOND);
        let class = *second;
        let come_back = || {
            let given = take_and_give_back(class, 100);
            // None from the allocator, which could give the same again.
            let again = std::iter::from_fn(|| with_cache(class, |cache| cache.take_kept(&DEPOTS[class])));
            let again: Vec<_> = again.collect();
            let count = again.iter().filter(|block| given.contains(&block.addr().get())).count();
            // SAFETY: taken above, and not used any more.
            again.into_iter().for_each(|block| unsafe { give_back(class, block.cast()) });
            count
        };
        // The watchdog of a host of another test may have freed some, but not each time.
        assert!((0..50).any(|_| come_back() > 90), "too few came back");
    }

    /// Mutation: the watchdog frees nothing when it rests. (It is found in a run of this test alone: hosts of other
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

    /// Catches one that is freed twice. (That none is kept where nothing will free it is seen by a check for leaks.)
    #[test]
    fn blocks_can_be_taken_and_freed_in_the_destructors_of_a_thread() {
        struct Late;
        impl Drop for Late {
            fn drop(&mut self) {
                let blocks = [take(0), take(0)];
                // SAFETY: just taken, and not used any more.
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
                // SAFETY: just taken, and not used any more.
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
