//! Synchronization of tests with processes.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A latch. It stays open once it has been opened.
#[derive(Clone, Debug, Default)]
pub struct Latch(Arc<(Mutex<bool>, Condvar)>);

impl Latch {
    /// Makes a closed latch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the latch for all present and future waiters.
    pub fn open(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    /// Returns whether the latch is open.
    pub fn is_open(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks the thread until the latch is open.
    pub fn wait(&self) {
        let mut open = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*open {
            open = self.0.1.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Polls `condition` until it holds. The caller must set a time limit.
pub fn eventually(mut condition: impl FnMut() -> bool) {
    let mut looks = 0_u32;
    while !condition() {
        looks += 1;
        if looks < 64 { std::thread::yield_now() } else { std::thread::sleep(Duration::from_micros(200)) }
    }
}
