//! What the threads of a host do, and who has which permit: a glance under the lock, which may be over by the time it
//! is read.

use super::holders::At;
use super::sleep::Idle;
use crate::sync::lock;

/// What the threads of a host do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadCounts {
    /// Those whose step blocks, without a permit.
    pub(crate) blocked: usize,
    /// Those that wait for a permit to go on with their step.
    pub(crate) waiting: usize,
    /// Those in a step without a permit.
    pub(crate) detached: usize,
    /// Those without a permit and with nothing to do.
    pub(crate) spare: usize,
    pub(crate) threads: usize,
}

impl Idle {
    /// Where a thread is.
    pub(crate) fn at(&self, thread: usize) -> At {
        lock(&self.sleepers).permits.at(thread)
    }

    /// Which thread holds that permit.
    pub(crate) fn holder(&self, permit: usize) -> Option<usize> {
        lock(&self.sleepers).permits.holder(permit)
    }

    pub(crate) fn without_permit(&self) -> Vec<usize> {
        let are = |at| matches!(at, At::Detached | At::Blocked | At::Waiting);
        lock(&self.sleepers).permits.those(are).collect()
    }

    /// What the threads do.
    pub(crate) fn census(&self) -> ThreadCounts {
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
