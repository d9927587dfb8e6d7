//! A snapshot of the threads of a host and their permits, taken under the lock, and stale at once.

use super::holders::At;
use super::sleep::Idle;
use crate::sync::lock;

/// The numbers of threads by state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadCounts {
    /// In a step that blocks, without a permit.
    pub(crate) blocked: usize,
    /// Waiting for a permit to continue their step.
    pub(crate) waiting: usize,
    /// In a step without a permit.
    pub(crate) detached: usize,
    /// Idle, without a permit.
    pub(crate) spare: usize,
    pub(crate) threads: usize,
}

impl Idle {
    /// Returns the state of a thread.
    pub(crate) fn at(&self, thread: usize) -> At {
        lock(&self.sleepers).permits.at(thread)
    }

    /// Returns the thread that holds that permit.
    pub(crate) fn holder(&self, permit: usize) -> Option<usize> {
        lock(&self.sleepers).permits.holder(permit)
    }

    pub(crate) fn without_permit(&self) -> Vec<usize> {
        let are = |at| matches!(at, At::Detached | At::Blocked | At::Waiting);
        lock(&self.sleepers).permits.those(are).collect()
    }

    /// Counts the threads by state.
    pub(crate) fn thread_counts(&self) -> ThreadCounts {
        let sleepers = lock(&self.sleepers);
        let permits = &sleepers.permits;
        ThreadCounts {
            blocked: permits.those(|at| at == At::Blocked).count(),
            waiting: permits.those(|at| at == At::Waiting).count(),
            detached: permits.those(|at| at == At::Detached).count(),
            spare: permits.those(|at| at == At::Spare).count(),
            threads: permits.threads(),
        }
    }
}
