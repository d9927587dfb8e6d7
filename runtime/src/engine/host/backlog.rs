//! What keeps messages for processes outside of their mailboxes: the line of a pool, what waits for a child that is
//! down.

use crate::sync::{Arc, Mutex, lock};
use std::sync::Weak;

/// See the module.
pub(crate) trait Backlog: Send + Sync {
    /// Returns whether no message waits there.
    fn is_empty(&self) -> bool;
}

/// Those of a host.
#[derive(Default)]
pub(crate) struct Backlogs(Mutex<Vec<Weak<dyn Backlog>>>);

impl Backlogs {
    /// One more, until it is dropped.
    pub(crate) fn add(&self, backlog: Weak<dyn Backlog>) {
        let mut all = lock(&self.0);
        if all.len() == all.capacity() {
            // Those that are gone are let go whenever the list would grow.
            all.retain(|backlog| backlog.strong_count() > 0);
        }
        all.push(backlog);
    }

    /// Returns whether no message waits in any of them. A glance.
    pub(crate) fn are_empty(&self) -> bool {
        // Looked at without the lock: the last hold on one may be this.
        let all: Vec<Arc<dyn Backlog>> = lock(&self.0).iter().filter_map(Weak::upgrade).collect();
        all.iter().all(|backlog| backlog.is_empty())
    }
}
