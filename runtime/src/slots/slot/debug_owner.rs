//! Which thread uses a slot's token: an assertion, in debug builds and so in all tests. In release builds it is
//! nothing.
//!
//! A token is used from the moment that its thread is about to touch what it stands for until right before it is laid
//! down, queued, or put where another thread takes it. Whatever belongs to the token's holder (body, cold state, the
//! taking end of the lanes, the process's edge in the wait graph) is touched in between and by that thread only: a
//! second token, or code that still goes by one that is gone, meets the assertion at its first touch.

/// See the module.
pub(crate) struct DebugOwner {
    /// Names the thread; zero while the token is not used.
    #[cfg(all(debug_assertions, not(loom)))]
    thread: std::sync::atomic::AtomicUsize,
}

#[cfg(all(debug_assertions, not(loom)))]
impl DebugOwner {
    pub(crate) const fn none() -> Self {
        Self { thread: std::sync::atomic::AtomicUsize::new(0) }
    }

    /// The calling thread begins to use the token.
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

    /// The calling thread uses the token in place of the one that began to, and waits for this one. Returns who that
    /// was, for [`give_back`](Self::give_back).
    pub(crate) fn take_over(&self) -> usize {
        self.thread.swap(this_thread(), std::sync::atomic::Ordering::Relaxed)
    }

    /// The one that waits goes on.
    #[track_caller]
    pub(crate) fn give_back(&self, to: usize) {
        self.check();
        self.thread.store(to, std::sync::atomic::Ordering::Relaxed);
    }

    /// The calling thread touches what belongs to the token's holder.
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
