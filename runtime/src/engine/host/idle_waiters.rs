//! Threads that wait until nothing of a host runs or can run. See [`quiescence`](crate::engine::shutdown::quiescence)
//! for how that is determined.

use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, fence, lock};

#[derive(Default)]
pub(crate) struct Quiet {
    pub(crate) waiting: AtomicUsize,
    pub(crate) lock: Mutex<()>,
    pub(crate) changed: Condvar,
}

impl Quiet {
    /// rest:T2 and rest:T3: a thread has parked, or the host has been shut down.
    pub(crate) fn tell(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _waiting = lock(&self.lock);
            self.changed.notify_all();
        }
    }
}
