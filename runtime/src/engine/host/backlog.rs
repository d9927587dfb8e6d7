//! Queues of messages outside of mailboxes: those of pools, and of children that are down.

use crate::sync::{Arc, Mutex, lock};
use std::sync::Weak;

pub(crate) trait Backlog: Send + Sync {
    fn is_empty(&self) -> bool;
}

#[derive(Default)]
pub(crate) struct Backlogs(Mutex<Vec<Weak<dyn Backlog>>>);

impl Backlogs {
    /// Adds a backlog, which remains listed until it is dropped.
    pub(crate) fn add(&self, backlog: Weak<dyn Backlog>) {
        let mut all = lock(&self.0);
        if all.len() == all.capacity() {
            // Dropped backlogs are removed whenever the list would grow.
            all.retain(|backlog| backlog.strong_count() > 0);
        }
        all.push(backlog);
    }

    /// Returns whether all backlogs are empty. The result may already be out of date.
    pub(crate) fn are_empty(&self) -> bool {
        // The backlogs are checked outside the lock, since the last reference to one may be dropped here.
        let all: Vec<Arc<dyn Backlog>> = lock(&self.0).iter().filter_map(Weak::upgrade).collect();
        all.iter().all(|backlog| backlog.is_empty())
    }
}
