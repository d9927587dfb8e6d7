//! Two barriers that work only together: a light one for a thread that passes it often, and a heavy one for a thread
//! that passes it rarely.
//!
//! Thread T stores x, passes [`light_barrier`] and loads y; thread R stores y, passes [`heavy_barrier`] and loads x.
//! Then T sees R's store or R sees T's, as if both had passed a sequentially consistent fence. On Linux the light
//! barrier costs only a constraint on the compiler's instruction order. The heavy barrier has the kernel interrupt each
//! processor that runs a thread of this program (`membarrier`, expedited; 0.5 to 20 µs). That is a full barrier
//! wherever T is. Until the kernel is [ready](prepare) for that, or always if it never becomes ready, T adds a fence.
//!
//! Switching from fences to light barriers is safe. If the kernel has refused a heavy barrier, R passed its fence
//! before the kernel was ready, so R's store was visible everywhere by then; and a T that omits its fence has seen that
//! the kernel is ready.

use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

/// Whether the kernel makes each heavy barrier a barrier for all threads.
static READY: AtomicBool = AtomicBool::new(false);

/// Asks the kernel to serve heavy barriers, once per program. In a program with several threads this takes about 10 ms,
/// so it should be called on a thread that no other thread waits for.
pub(crate) fn prepare() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| READY.store(kernel::register(), Ordering::SeqCst));
}

/// Returns whether light barriers work. Until then, each must be followed by a fence.
pub(crate) fn is_light_barrier_enough() -> bool {
    READY.load(Ordering::SeqCst)
}

#[inline(always)]
pub(crate) fn light_barrier() {
    compiler_fence(Ordering::SeqCst);
}

/// A light barrier, or a fence where that is not enough.
#[inline(always)]
pub(crate) fn checked_light_barrier() {
    if READY.load(Ordering::Acquire) {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

#[cold]
pub(crate) fn heavy_barrier() {
    fence(Ordering::SeqCst);
    if !kernel::barrier() && is_light_barrier_enough() {
        fall_back();
    }
    fence(Ordering::SeqCst);
}

/// Handles a kernel that refuses barriers after it has agreed to serve them, because a filter of system calls has been
/// installed in the meantime or the kernel has no memory. Aborts the program if a slow barrier fails too: without a
/// barrier, two threads may run one process.
#[cold]
fn fall_back() {
    if !kernel::slow_barrier() {
        eprintln!(
            "postroom: the kernel refuses `membarrier`, which it has granted before: allow it in filters of calls"
        );
        std::process::abort();
    }
}

// Miri does not support this system call.
#[cfg(all(target_os = "linux", not(miri)))]
mod kernel {
    use libc::{
        MEMBARRIER_CMD_GLOBAL, MEMBARRIER_CMD_PRIVATE_EXPEDITED, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
        SYS_membarrier,
    };

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: this system call touches no memory of the program.
        unsafe { libc::syscall(SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn register() -> bool {
        membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
    }

    /// Returns whether the call acted as a barrier, which it cannot do before [`register`] has returned true.
    pub(super) fn barrier() -> bool {
        membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }

    /// Like [`barrier`], but takes several milliseconds, and needs no memory. Returns whether the call acted as a
    /// barrier.
    pub(super) fn slow_barrier() -> bool {
        membarrier(MEMBARRIER_CMD_GLOBAL)
    }
}

#[cfg(any(not(target_os = "linux"), miri))]
mod kernel {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn barrier() -> bool {
        false
    }

    pub(super) fn slow_barrier() -> bool {
        false
    }
}
