//! Counts the bytes that the program has allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// The system's allocator, together with a count of bytes.
struct Counting;

/// Three counts of bytes: in small blocks; in large blocks (the runtime's regions, which are never freed, and long
/// lists); and in blocks of the sizes that the runtime recycles within bounds.
pub static BYTES: [AtomicI64; 3] = [AtomicI64::new(0), AtomicI64::new(0), AtomicI64::new(0)];
/// The minimum size of a large block: that of a region of the runtime.
const LARGE: usize = 256 << 10;

/// The block sizes of the runtime's `mem/large_blocks.rs`.
const RECYCLED: [usize; 4] = [1_088, 2_112, 4_160, 8_256];

fn count(layout: &Layout) -> &'static AtomicI64 {
    let size = layout.size();
    &BYTES[if RECYCLED.contains(&size) { 2 } else { usize::from(size >= LARGE) }]
}

#[global_allocator]
static HEAP: Counting = Counting;

// SAFETY: each function calls that of the system's allocator, and only counts beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(&layout).fetch_add(layout.size() as i64, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(&layout).fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Returns two counts of bytes: in small blocks, including recycled ones, and in large blocks.
pub fn heap() -> [i64; 2] {
    let [small, large, recycled] = BYTES.each_ref().map(|bytes| bytes.load(Relaxed));
    [small + recycled, large]
}
