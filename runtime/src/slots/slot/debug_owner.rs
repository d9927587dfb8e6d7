//! Asserts which thread uses a slot's token, in debug builds and so in all tests. Nothing in release builds.
//!
//! A token is in use from the moment at which its thread is about to access what it protects until right before it is
//! parked, queued, or passed to another thread. Everything that belongs to the token's holder (body, cold state, the
//! taking end of the lanes, the process's edge in the wait graph) is accessed in between, by that thread only: a second
//! token, or code that still uses one that is gone, fails the assertion at its first access.

pub(crate) struct DebugOwner {
    /// Identifies the thread; zero while the token is not in use.
    #[cfg(all(debug_assertions, not(loom)))]
    thread: std::sync::atomic::AtomicUsize,
}

#[cfg(all(debug_assertions, not(loom)))]
impl DebugOwner {
    pub(crate) const fn none() -> Self {
        Self { thread: std::sync::atomic::AtomicUsize::new(0) }
    }

    #[track_caller]
    pub(crate) fn begin(&self) {
        let before = self.thread.swap(this_thread(), std::sync::atomic::Ordering::Relaxed);
        assert!(before == 0, "the token is used already, by thread {before:#x}; this is {:#x}", this_thread());
    }

    /// The calling thread is about to give the token away.
    #[track_caller]
    pub(crate) fn end(&self) {
        self.check();
        self.thread.store(0, std::sync::atomic::Ordering::Relaxed);
    }

    /// The calling thread uses the token in place of the one that began to, and that waits for this one. Returns the
    /// waiting thread, for [`give_back`](Self::give_back).
    pub(crate) fn take_over(&self) -> usize {
        self.thread.swap(this_thread(), std::sync::atomic::Ordering::Relaxed)
    }

    #[track_caller]
    pub(crate) fn give_back(&self, to: usize) {
        self.check();
        self.thread.store(to, std::sync::atomic::Ordering::Relaxed);
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        let owner = self.thread.load(std::sync::atomic::Ordering::Relaxed);
        assert!(
            owner == this_thread(),
            "the token is used by thread {owner:#x}, and not by this one, {:#x}",
            this_thread()
        );
    }
}

#[cfg(all(debug_assertions, not(loom)))]
fn this_thread() -> usize {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.with(|here| std::ptr::from_ref(here).addr())
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
    pub(crate) fn take_over(&self) -> usize {
        0
    }

    #[inline(always)]
    pub(crate) fn give_back(&self, _to: usize) {}

    #[inline(always)]
    pub(crate) fn check(&self) {}
}
