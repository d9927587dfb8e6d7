//! Who is notified when a permit that others drive is called: its task, or the thread that helps out in its place.
//!
//! * *notify*: a thread that has called a permit at rest (`driver_state`) looks whether there is a helper. If so, it
//!   notifies that one, under the lock; if there is none, or none any more, it wakes the task.
//! * *begin*: a thread that begins to help out becomes the helper under the lock, and then looks whether the permit
//!   waits. The one that started it then wakes the task, which may have been polled before there was a helper to
//!   relieve.
//! * *relieve*: a thread that polls the task takes the helper away, under the lock, and then looks itself.
//! * *end*: a helper that has been relieved notifies the next one, if there is one, and wakes the task: either may have
//!   found it driving.
//!
//! *Each call is seen.* The call and the look for a helper are a store and a load; so are the beginning of help and the
//! helper's first look. A barrier between each two makes one of them see the other: a light one for the frequent side.
//! If *notify* wakes the task, the task is polled, or is dropped, and then a helper *begins*. If it
//! finds a helper under the lock, that helper looks afterwards, unless it is relieved; but then *relieve* comes later,
//! and the thread that polls looks. A model is in `tests/models`.

use crate::sync::{AtomicBool, Mutex, Ordering, checked_light_barrier, heavy_barrier, lock};

/// The helper of a permit; `H` is how it is notified.
pub(crate) struct Help<H> {
    helper: Mutex<Option<H>>,
    /// Whether there is a helper. Written under the lock.
    is_there: AtomicBool,
}

impl<H> Help<H> {
    pub(crate) fn new() -> Self {
        Self { helper: Mutex::new(None), is_there: AtomicBool::new(false) }
    }

    /// Performs *notify*: calls `notify` with the helper, or returns false if the task must be woken.
    pub(crate) fn notify(&self, notify: impl FnOnce(&H)) -> bool {
        checked_light_barrier();
        self.is_there.load(Ordering::SeqCst) && self.notify_next(notify)
    }

    /// Calls `notify` with the helper. Returns false if there is none.
    pub(crate) fn notify_next(&self, notify: impl FnOnce(&H)) -> bool {
        lock(&self.helper).as_ref().map(notify).is_some()
    }

    /// Performs *begin* for a helper that `start` starts. Returns `None` if there is a helper already, or `is_over`
    /// says that there is nothing to help with.
    pub(crate) fn begin<E>(
        &self,
        is_over: impl FnOnce() -> bool,
        start: impl FnOnce() -> Result<H, E>,
    ) -> Option<Result<(), E>> {
        let mut helper = lock(&self.helper);
        if helper.is_some() || is_over() {
            return None;
        }
        Some(start().map(|started| {
            *helper = Some(started);
            self.is_there.store(true, Ordering::SeqCst);
            heavy_barrier();
        }))
    }

    /// Performs *relieve*. Returns the former helper, which must be notified.
    #[must_use = "the helper must be notified"]
    pub(crate) fn relieve(&self) -> Option<H> {
        if !self.is_there.load(Ordering::SeqCst) {
            return None;
        }
        let mut helper = lock(&self.helper);
        self.is_there.store(false, Ordering::SeqCst);
        helper.take()
    }

    /// Returns whether the helper is the one that `is_it` accepts.
    pub(crate) fn is_by(&self, is_it: impl FnOnce(&H) -> bool) -> bool {
        lock(&self.helper).as_ref().is_some_and(is_it)
    }
}
