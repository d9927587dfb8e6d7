//! Those who wait until nothing of a host runs or can run. How that is found out is
//! [`settle`](crate::engine::shutdown::quiescence)'s.

use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, fence, lock};

/// Those who wait until a host is at rest.
#[derive(Default)]
pub(crate) struct Quiet {
    pub(crate) waiting: AtomicUsize,
    pub(crate) lock: Mutex<()>,
    pub(crate) changed: Condvar,
}

impl Quiet {
    /// rest:T2 and rest:T3: a thread has gone to sleep, or the host has been shut down.
    pub(crate) fn tell(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _waiting = lock(&self.lock);
            self.changed.notify_all();
        }
    }
}
