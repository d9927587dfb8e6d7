//! A lock for a few moves.
//!
//! To take and free it costs one atomic exchange, where a `Mutex` costs two. A thread that finds it taken spins, and
//! then yields. So what is done under it must be brief, and must not run user code: move values in and out, and clone
//! and drop them outside.
//!
//! *One at a time*: the exchange admits one thread, until that thread's guard clears the flag. *What it did is
//! visible*: the store releases, and the exchange acquires. A model is in `tests/models`.

use super::{AtomicBool, Ordering, OwnedCell, disturb, spin, yield_now};

/// Number of times that a thread looks before it yields: it yields at once in models.
const SPINS: u64 = if cfg!(loom) { 0 } else { 64 };

pub(crate) struct SpinLock<T> {
    is_taken: AtomicBool,
    value: OwnedCell<T>,
}

// SAFETY: the lock admits one thread at a time to the value, as a `Mutex` does.
unsafe impl<T: Send> Send for SpinLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { is_taken: AtomicBool::new(false), value: OwnedCell::new(value) }
    }

    /// Calls `body` with the value, under the lock.
    #[inline]
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        disturb();
        self.take();
        let _free = Free(&self.is_taken);
        disturb();
        // SAFETY: the lock is taken, so no other thread uses the value until `_free` is dropped.
        self.value.with_mut(|value| body(unsafe { &mut *value }))
    }

    #[inline]
    fn take(&self) {
        let mut tries = 0;
        while self.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            tries += 1;
            wait(tries);
        }
    }
}

#[cold]
fn wait(tries: u64) {
    if tries <= SPINS { spin() } else { yield_now() }
}

/// Frees the lock when dropped.
struct Free<'a>(&'a AtomicBool);

impl Drop for Free<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
