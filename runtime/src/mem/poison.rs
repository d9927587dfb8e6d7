//! Tells AddressSanitizer about recycled memory: a freed piece must not be touched until it is taken again. The
//! exceptions are its first words, which link free pieces and may be read by holders of a stale pointer (see
//! [`magazine`](crate::mem::magazine) for the link, and [`node`](crate::mailbox::node) for the mark of a node). Without
//! this, such a use would go undetected: to the sanitizer, all of this memory is one allocation that lives forever.
//!
//! This code is absent from other builds; `tests/sanitizers/run address` sets the `cfg`.

use std::ptr::NonNull;

#[cfg(postroom_asan)]
unsafe extern "C" {
    fn __asan_poison_memory_region(start: *const u8, bytes: usize);
    fn __asan_unpoison_memory_region(start: *const u8, bytes: usize);
}

/// Marks a freed piece of `bytes` bytes as untouchable from offset `from` on. Both numbers are multiples of eight.
#[inline(always)]
pub(crate) fn given_back(piece: NonNull<u8>, from: usize, bytes: usize) {
    #[cfg(postroom_asan)]
    // SAFETY: the call marks addresses and touches no memory.
    unsafe {
        __asan_poison_memory_region(piece.as_ptr().wrapping_add(from), bytes - from);
    }
    #[cfg(not(postroom_asan))]
    let _ = (piece, from, bytes);
}

/// Marks a piece of `bytes` bytes as in use.
#[inline(always)]
pub(crate) fn taken(piece: NonNull<u8>, bytes: usize) {
    #[cfg(postroom_asan)]
    // SAFETY: as above.
    unsafe {
        __asan_unpoison_memory_region(piece.as_ptr(), bytes);
    }
    #[cfg(not(postroom_asan))]
    let _ = (piece, bytes);
}

#[cfg(all(test, postroom_asan))]
mod tests {
    use crate::mailbox::node_pool;
    use crate::mem::size_classes;
    use std::alloc::Layout;
    use std::process::Command;

    /// The environment variable that makes this test misuse memory, in a separate program that the sanitizer
    /// terminates.
    const MISUSE: &str = "POSTROOM_POISON_MISUSE";

    fn misuse(of: &str) {
        let address = if of == "node" {
            let node = node_pool::empty();
            let address = node.as_ptr().cast::<u8>();
            node_pool::recycle(node);
            address
        } else {
            let layout = Layout::new::<[u64; 8]>();
            let block = size_classes::take(layout);
            // SAFETY: taken above.
            unsafe { size_classes::give_back(block, layout) };
            block
        };
        // SAFETY: none; the memory exists forever, and the sanitizer must detect this read.
        let _read = unsafe { address.add(16).read_volatile() };
    }

    /// Catches: a read of freed memory that the sanitizer does not detect.
    #[test]
    fn a_look_at_what_has_been_given_back_is_reported() {
        if let Ok(of) = std::env::var(MISUSE) {
            return misuse(&of);
        }
        // The harness omits the crate's name.
        let module = module_path!().split_once("::").unwrap().1;
        for of in ["node", "block"] {
            let mut program = Command::new(std::env::current_exe().unwrap());
            program.args(["--exact", &format!("{module}::a_look_at_what_has_been_given_back_is_reported")]);
            // The report is checked here, and must not be mistaken for one of the whole run.
            program.env("ASAN_OPTIONS", "detect_leaks=0").env(MISUSE, of);
            let output = program.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && said.contains("use-after-poison"), "{of}: {said}");
        }
    }
}
