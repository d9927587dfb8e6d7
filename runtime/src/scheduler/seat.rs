//! Who has a thread's context, and who wants it back.
//!
//! Several threads may take turns at one context: the one that runs processes with it, and those whose process blocks.
//! Each of the latter wants it back when its wait is over. The one that has it looks at `wanted` between two steps, and
//! then gives it up for good: it has nothing left to do, and ends.
//!
//! W1 a thread that comes back counts itself in `wanted`, and wakes the one that has the context, should it sleep;
//! W2 that one, between steps, sees the count, and lays the context down (`free`), and wakes one of those that wait;
//! W3 a thread that waits takes the context if it lies free, and counts itself out.
//!
//! W2 and W3 are under one lock, so a context that was laid down is seen by whoever waits: either it waits already and is
//! woken, or it looks at `free` before it waits.

use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, lock, wait};
use std::ops::Deref;

/// See the module.
pub(crate) struct Seat {
    free: Mutex<bool>,
    freed: Condvar,
    wanted: AtomicU32,
}

impl Seat {
    /// A seat that its maker has.
    pub(crate) fn new() -> Self {
        Self { free: Mutex::new(false), freed: Condvar::new(), wanted: AtomicU32::new(0) }
    }

    /// Whether somebody wants it back. Cheap enough to be asked between two steps.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// W1: says that the calling thread wants it back; whoever has it must be woken then.
    pub(crate) fn want(&self) {
        self.wanted.fetch_add(1, Ordering::SeqCst);
    }

    /// W2: lays it down.
    pub(crate) fn lay_down(&self) {
        *lock(&self.free) = true;
        self.freed.notify_one();
    }

    /// W3: waits for it, and takes it.
    pub(crate) fn take(&self) {
        let mut free = lock(&self.free);
        while !*free {
            free = wait(&self.freed, free);
        }
        *free = false;
        self.wanted.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Something that one thread at a time uses, though several hold on to it.
pub(crate) struct Shared<T>(T);

// SAFETY: what is in it is used by the one thread whose turn it is (see the module): turns are passed on by a lock, or by
// the start of a thread.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
