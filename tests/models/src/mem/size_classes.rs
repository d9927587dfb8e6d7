//! A stand-in for the size classes: the program's allocator.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Returns the layout, enlarged to at least one byte.
fn at_least(layout: Layout) -> Layout {
    Layout::from_size_align(layout.size().max(1), layout.align()).expect("not larger than it was")
}

pub(crate) fn take(layout: Layout) -> NonNull<u8> {
    let layout = at_least(layout);
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

/// # Safety
/// `memory` was taken with this layout, and is no longer used.
pub(crate) unsafe fn give_back(memory: NonNull<u8>, layout: Layout) {
    // SAFETY: as the caller promises.
    unsafe { dealloc(memory.as_ptr(), at_least(layout)) }
}
