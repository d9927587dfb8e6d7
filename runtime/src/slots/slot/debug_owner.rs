//! Asserts which thread uses a slot's token, in debug builds and thus in all tests. Compiles to nothing in release
//! builds.
//!
//! A token is in use from the moment its thread is about to access the data that it protects until just before it is
//! parked, queued, or passed to another thread. Everything that belongs to the token's holder (body, cold state, the
//! consuming end of the lanes, the process's edge in the wait graph) is accessed in between, and by that thread only. A
//! second token, or code that uses a token after giving it away, fails the assertion at its first access.

#[cfg(all(debug_assertions, not(loom)))]
use crate::util::thread_bound::this_thread;
#[cfg(all(debug_assertions, not(loom)))]
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct DebugOwner {
    /// Identifies the thread; zero while the token is not in use.
    #[cfg(all(debug_assertions, not(loom)))]
    thread: AtomicU64,
}

#[cfg(all(debug_assertions, not(loom)))]
impl DebugOwner {
    pub(crate) const fn none() -> Self {
        Self { thread: AtomicU64::new(0) }
    }

    #[track_caller]
    pub(crate) fn begin(&self) {
        let before = self.thread.swap(this_thread(), Ordering::Relaxed);
        assert!(before == 0, "the token is used already, by thread {before}; this is {}", this_thread());
    }

    /// Records that the calling thread is about to give the token away.
    #[track_caller]
    pub(crate) fn end(&self) {
        self.check();
        self.thread.store(0, Ordering::Relaxed);
    }

    /// Records that the calling thread uses the token on behalf of the thread that has used it so far. That thread
    /// waits for the calling one. Returns the waiting thread, for [`give_back`](Self::give_back).
    pub(crate) fn take_over(&self) -> u64 {
        self.thread.swap(this_thread(), Ordering::Relaxed)
    }

    #[track_caller]
    pub(crate) fn give_back(&self, to: u64) {
        self.check();
        self.thread.store(to, Ordering::Relaxed);
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        let owner = self.thread.load(Ordering::Relaxed);
        assert!(owner == this_thread(), "the token is used by thread {owner}, and not by this one, {}", this_thread());
    }
}

#[cfg(not(all(debug_assertions, not(loom))))]
impl DebugOwner {
    pub(crate) const fn none() -> Self {
        Self {}
    }

    #[inline(always)]
    pub(crate) fn begin(&self) {}

    #[inline(always)]
    pub(crate) fn end(&self) {}

    #[inline(always)]
    pub(crate) fn take_over(&self) -> u64 {
        0
    }

    #[inline(always)]
    pub(crate) fn give_back(&self, _to: u64) {}

    #[inline(always)]
    pub(crate) fn check(&self) {}
}
