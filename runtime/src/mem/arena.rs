//! Memory that is never freed: slots, nodes and blocks are carved from it.
//!
//! It is allocated in regions that grow with demand: small ones in a small program, later two mebibytes at a time,
//! aligned to their size so that the system can back them with large pages. Requesting large pages (`MADV_HUGEPAGE`)
//! was tried and rejected: on a machine with free memory it made a spawn a third cheaper (136 ns instead of 201), but
//! on a virtual machine whose host reclaims free memory, getting a large page costs up to a millisecond (436 ns a
//! spawn), and a library cannot know where it runs.

use crate::sync::{Mutex, lock};
use std::alloc::{Layout, alloc, handle_alloc_error};
use std::ptr::NonNull;

/// The size and alignment of a large page.
pub(crate) const LARGE: usize = 2 << 20;

/// The total size up to which memory is allocated in small regions.
const SMALL_UNTIL: usize = 4 << 20;
const SMALL: usize = 256 << 10;

/// The alignment of every piece: a cache line.
const ALIGN: usize = 64;

struct Arena {
    /// The unused rest of the newest region.
    next: NonNull<u8>,
    left: usize,
    total: usize,
}

// SAFETY: the arena owns its memory.
unsafe impl Send for Arena {}

static ARENA: Mutex<Arena> = Mutex::new(Arena { next: NonNull::dangling(), left: 0, total: 0 });

/// Returns `bytes` of permanent memory, aligned to a cache line. Takes a lock, so use it for whole slabs.
///
/// The end of a region is wasted if it is too small for the requested piece; pieces are small compared to regions.
pub(crate) fn permanent(bytes: usize) -> NonNull<u8> {
    let bytes = bytes.next_multiple_of(ALIGN);
    let mut arena = lock(&ARENA);
    if bytes > arena.left {
        let size = if arena.total < SMALL_UNTIL { SMALL } else { LARGE };
        let size = size.max(bytes);
        arena.next = region(size);
        arena.left = size;
        arena.total += size;
    }
    let piece = arena.next;
    arena.left -= bytes;
    // SAFETY: within the region, or at its end.
    arena.next = unsafe { piece.add(bytes) };
    piece
}

/// Returns a separate permanent region, aligned for large pages if it has their size.
pub(crate) fn region(bytes: usize) -> NonNull<u8> {
    let align = if bytes >= LARGE { LARGE } else { ALIGN };
    let Ok(layout) = Layout::from_size_align(bytes, align) else { unreachable!("a few megabytes") };
    // SAFETY: the size is not zero.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_apart_and_can_be_written() {
        let sizes = [1, 64, 16 << 10, 100 << 10, 300 << 10, LARGE, 3 * LARGE, 16 << 10, 16 << 10];
        let pieces = sizes.map(|size| (permanent(size), size));
        for (number, (piece, size)) in pieces.iter().enumerate() {
            assert_eq!(piece.addr().get() % ALIGN, 0);
            // SAFETY: the piece has that many bytes, and no other thread uses it.
            unsafe { piece.write_bytes(number as u8, *size) };
        }
        for (number, (piece, size)) in pieces.iter().enumerate() {
            // SAFETY: written above.
            assert_eq!(unsafe { (piece.read(), piece.add(size - 1).read()) }, (number as u8, number as u8));
        }
    }
}
