//! Blocks of one to eight kibibytes, from the program's allocator. Each thread keeps a few that it has freed.
//!
//! Unlike smaller ones (see [`size_classes`](super::size_classes)), blocks are freed: thousands of large messages that
//! have once waited somewhere would otherwise hold their memory for ever. What a thread keeps is bounded, and enough
//! for messages that are handled soon after they are sent: `malloc` and `free` are 330 instructions for 4 KiB.

use super::poison;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};

/// A round number of bytes, and a little for what comes with a buffer of that size.
const SIZES: [usize; 4] = [1_088, 2_112, 4_160, 8_256];
/// What all allocators give unasked.
const ALIGN: usize = 16;

/// How many bytes of each size a thread keeps. A guess: what fits in a core's second-level cache.
const KEPT_BYTES: usize = 64 << 10;

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

/// A free block, in its first word.
struct Free(*mut Free);

/// Free blocks of one size.
struct Kept {
    first: *mut Free,
    count: usize,
}

impl Kept {
    const NONE: Self = Self { first: ptr::null_mut(), count: 0 };
}

thread_local! {
    static KEPT: UnsafeCell<[Kept; SIZES.len()]> = const { UnsafeCell::new([const { Kept::NONE }; SIZES.len()]) };
    /// Frees what the thread has kept when it ends. Apart from that, which other destructors use.
    static FLUSH: FlushKept = const { FlushKept };
}

struct FlushKept;

impl Drop for FlushKept {
    fn drop(&mut self) {
        for class in 0..SIZES.len() {
            while let Some(block) = with_kept(class, |kept| kept.take(class)) {
                free(class, block);
            }
        }
    }
}

#[inline]
fn with_kept<R>(class: usize, body: impl FnOnce(&mut Kept) -> R) -> R {
    // SAFETY: they are this thread's alone, and no body here calls foreign code that could re-enter.
    KEPT.with(|kept| body(unsafe { &mut (*kept.get())[class] }))
}

impl Kept {
    #[inline]
    fn take(&mut self, class: usize) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.first)?;
        poison::taken(block.cast(), SIZES[class]);
        // SAFETY: a block that is kept begins with its link, and has no other owner.
        self.first = unsafe { block.read() }.0;
        self.count -= 1;
        Some(block.cast())
    }
}

#[inline]
pub(crate) fn take(class: usize) -> NonNull<u8> {
    with_kept(class, |kept| kept.take(class)).unwrap_or_else(|| allocate(class))
}

/// Frees a block, or keeps it.
///
/// # Safety
/// It was taken as one of this class, and is not used any more.
#[inline]
pub(crate) unsafe fn give_back(class: usize, block: NonNull<u8>) {
    let is_kept = with_kept(class, |kept| {
        let has_room = kept.count < KEPT_BYTES / SIZES[class];
        // The first one needs a destructor that frees it, for which it can be too late.
        if !has_room || (kept.count == 0 && FLUSH.try_with(|_| ()).is_err()) {
            return false;
        }
        // SAFETY: it is large enough and aligned, and the caller gives it up.
        unsafe { block.cast::<Free>().write(Free(kept.first)) };
        kept.first = block.as_ptr().cast();
        kept.count += 1;
        poison::given_back(block, size_of::<Free>(), SIZES[class]);
        true
    });
    if !is_kept {
        free(class, block);
    }
}

fn layout(class: usize) -> Layout {
    Layout::from_size_align(SIZES[class], ALIGN).unwrap_or_else(|_| unreachable!("small, and aligned to 16"))
}

#[cold]
fn allocate(class: usize) -> NonNull<u8> {
    let layout = layout(class);
    // SAFETY: not of size zero.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cold]
fn free(class: usize, block: NonNull<u8>) {
    // SAFETY: called with blocks that were allocated with this layout and have no other owner.
    unsafe { dealloc(block.as_ptr(), layout(class)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// On a thread of its own, whose cache no other test uses.
    fn apart(body: impl FnOnce() + Send + 'static) {
        std::thread::spawn(body).join().unwrap();
    }

    #[test]
    fn a_block_freed_last_is_taken_first_and_of_many_some_are_kept() {
        apart(|| {
            for (class, size) in SIZES.into_iter().enumerate() {
                let most = KEPT_BYTES / size;
                let taken: Vec<_> = (0..2 * most).map(|_| take(class)).collect();
                assert_eq!(taken.iter().collect::<HashSet<_>>().len(), taken.len());
                for block in &taken {
                    // SAFETY: taken with that size.
                    unsafe { block.write_bytes(1, size) };
                }
                // SAFETY: taken above, and not used any more.
                taken.iter().for_each(|&block| unsafe { give_back(class, block) });
                assert_eq!(with_kept(class, |kept| kept.count), most);
                let again: Vec<_> = (0..most).map(|_| take(class)).collect();
                assert!(again.iter().eq(taken[..most].iter().rev()));
                assert_eq!(with_kept(class, |kept| kept.count), 0);
                // SAFETY: as above.
                again.into_iter().for_each(|block| unsafe { give_back(class, block) });
            }
        });
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
