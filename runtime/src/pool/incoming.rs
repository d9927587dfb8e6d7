//! Messages that a thread brings which must not run users' code: that of a cluster.
//!
//! Users' code says which lane a message belongs to. So such a thread queues the message here, and a notifier brings
//! what is queued to the pool, one after the other: messages stay in their order. One for which the pool has no room
//! stays the first, and is brought again after [`RETRY`]; no thread waits meanwhile. What finds [`MOST`] in the queue
//! is refused, as by a full pool.

use super::route::Route;
use crate::call::package::Package;
use crate::sync::{Mutex, lock};
use std::collections::VecDeque;
use std::time::Duration;

/// How many messages wait here at most. A guess: enough to bridge the start of a notifier.
const MOST: usize = 256;

/// When a message is brought again for which there was no room. A guess: as often as a sender that waits looks again.
pub(super) const RETRY: Duration = Duration::from_millis(1);

pub(super) struct Incoming<K>(Mutex<IncomingState<K>>);

struct IncomingState<K> {
    /// With its route, if it was brought before: users' code is asked once.
    packages: VecDeque<(Package, Option<Route<K>>)>,
    /// A notifier brings them, or a timer will have one do so.
    is_brought: bool,
}

impl<K> Incoming<K> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(IncomingState { packages: VecDeque::new(), is_brought: false }))
    }

    /// Queues a package. Returns whether the caller is to have a notifier bring what is queued.
    ///
    /// # Errors
    /// The package, if there is no room.
    pub(super) fn push(&self, package: Package) -> Result<bool, Package> {
        let mut state = lock(&self.0);
        if state.packages.len() >= MOST {
            return Err(package);
        }
        state.packages.push_back((package, None));
        Ok(!std::mem::replace(&mut state.is_brought, true))
    }

    /// Takes the next package. After `None` the next push has another notifier begin.
    pub(super) fn next(&self) -> Option<(Package, Option<Route<K>>)> {
        let mut state = lock(&self.0);
        let next = state.packages.pop_front();
        state.is_brought = next.is_some();
        next
    }

    pub(super) fn put_back(&self, package: Package, route: Route<K>) {
        lock(&self.0).packages.push_front((package, Some(route)));
    }

    /// Returns whether nothing is queued or on its way to the pool.
    pub(super) fn is_empty(&self) -> bool {
        !lock(&self.0).is_brought
    }
}
