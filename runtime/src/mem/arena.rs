//! Memory that is never given back: slots, nodes and blocks are carved from it.
//!
//! It comes in regions that grow with the need: small ones for a small program, then two megabytes at a time and
//! aligned to that, so that a system that uses large pages wherever it can finds places for them. Asking for large
//! pages (`MADV_HUGEPAGE`) was tried and left out: with memory that the machine has at hand it made a spawn a third
//! cheaper (136 ns for 201), but on a virtual machine whose host takes free memory back, a large page costs up to a
//! millisecond to get (436 ns a spawn), and a library cannot know where it runs.

use crate::sync::{Mutex, lock};
use std::alloc::{Layout, alloc, handle_alloc_error};
use std::ptr::NonNull;

/// The size and alignment of a large page.
pub(crate) const LARGE: usize = 2 << 20;

/// How much is taken in small regions.
const SMALL_UNTIL: usize = 4 << 20;
const SMALL: usize = 256 << 10;

/// The alignment of every piece: a cache line.
const ALIGN: usize = 64;

struct Arena {
    /// What is left of the last region.
    next: NonNull<u8>,
    left: usize,
    total: usize,
}

// SAFETY: it owns what it points at.
unsafe impl Send for Arena {}

static ARENA: Mutex<Arena> = Mutex::new(Arena { next: NonNull::dangling(), left: 0, total: 0 });

/// So many bytes, aligned to a cache line, for as long as the program runs. Takes a lock: for whole slabs.
///
/// What is left of a region that is too small for a piece is lost: pieces are small against regions.
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

/// A region of its own, for as long as the program runs; aligned for large pages if it has their size.
pub(crate) fn region(bytes: usize) -> NonNull<u8> {
    let align = if bytes >= LARGE { LARGE } else { ALIGN };
    let Ok(layout) = Layout::from_size_align(bytes, align) else { unreachable!("a few megabytes") };
    // SAFETY: not empty.
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
            // SAFETY: so many bytes, which no other thread has.
            unsafe { piece.write_bytes(number as u8, *size) };
        }
        for (number, (piece, size)) in pieces.iter().enumerate() {
            // SAFETY: written above.
            assert_eq!(unsafe { (piece.read(), piece.add(size - 1).read()) }, (number as u8, number as u8));
        }
    }
}
