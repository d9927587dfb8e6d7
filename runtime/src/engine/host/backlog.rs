//! Queues of messages outside of mailboxes: of a pool, or of a child that is down.

use crate::sync::{Arc, Mutex, lock};
use std::sync::Weak;

pub(crate) trait Backlog: Send + Sync {
    fn is_empty(&self) -> bool;
}

#[derive(Default)]
pub(crate) struct Backlogs(Mutex<Vec<Weak<dyn Backlog>>>);

impl Backlogs {
    /// Adds a backlog, until it is dropped.
    pub(crate) fn add(&self, backlog: Weak<dyn Backlog>) {
        let mut all = lock(&self.0);
        if all.len() == all.capacity() {
            // Dropped ones are removed whenever the list would grow.
            all.retain(|backlog| backlog.strong_count() > 0);
        }
        all.push(backlog);
    }

    /// Returns whether all are empty. Stale at once.
    pub(crate) fn are_empty(&self) -> bool {
        // Outside the lock: this may hold the last reference to one.
        let all: Vec<Arc<dyn Backlog>> = lock(&self.0).iter().filter_map(Weak::upgrade).collect();
        all.iter().all(|backlog| backlog.is_empty())
    }
}
