//! Messages from the threads of a cluster, which must not run user code.
//!
//! User code determines the lane of a message. So a thread of a cluster queues the message here, and a notifier passes
//! the queued messages to the pool, one after another and in order. A message for which the pool has no room stays at
//! the head of the queue and is tried again after [`RETRY`]; no thread waits in the meantime. A message that finds
//! [`MOST`] others in the queue is refused, as by a full pool.

use super::route::Route;
use crate::call::package::Package;
use crate::sync::{Mutex, lock};
use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of queued packages. A guess: enough to bridge the start of a notifier.
const MOST: usize = 256;

/// Delay before a message that the pool had no room for is tried again. A guess: as often as a waiting sender checks.
pub(super) const RETRY: Duration = Duration::from_millis(1);

pub(super) struct Incoming<K>(Mutex<IncomingState<K>>);

struct IncomingState<K> {
    /// Queued packages, each with its route if it was tried before, so that user code runs only once per message.
    packages: VecDeque<(Package, Option<Route<K>>)>,
    /// Whether a notifier is passing the packages on, or a timer will start such a notifier.
    is_brought: bool,
}

impl<K> Incoming<K> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(IncomingState { packages: VecDeque::new(), is_brought: false }))
    }

    /// Queues a package. Returns whether the caller must start a notifier to pass the queued packages on.
    ///
    /// # Errors
    /// Returns the package if the queue is full.
    pub(super) fn push(&self, package: Package) -> Result<bool, Package> {
        let mut state = lock(&self.0);
        if state.packages.len() >= MOST {
            return Err(package);
        }
        state.packages.push_back((package, None));
        Ok(!std::mem::replace(&mut state.is_brought, true))
    }

    /// Takes the next package. If there is none, the next push starts another notifier.
    pub(super) fn next(&self) -> Option<(Package, Option<Route<K>>)> {
        let mut state = lock(&self.0);
        let next = state.packages.pop_front();
        state.is_brought = next.is_some();
        next
    }

    pub(super) fn put_back(&self, package: Package, route: Route<K>) {
        lock(&self.0).packages.push_front((package, Some(route)));
    }

    /// Returns true if no package is queued and none is on its way to the pool.
    pub(super) fn is_empty(&self) -> bool {
        !lock(&self.0).is_brought
    }
}
