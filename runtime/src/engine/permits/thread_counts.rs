//! What the threads of a host do, and who has which worker: a glance under the lock, which may be over by the time it
//! is read.

use super::holders::At;
use super::sleep::Idle;
use crate::sync::lock;

/// What the threads of a host do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadCounts {
    /// Those whose step blocks, without a worker.
    pub(crate) blocked: usize,
    /// Those that wait for a worker to go on with their step.
    pub(crate) waiting: usize,
    /// Those in a step without a worker.
    pub(crate) strays: usize,
    /// Those without a worker and with nothing to do.
    pub(crate) standby: usize,
    /// All.
    pub(crate) threads: usize,
}

impl Idle {
    /// Where a thread is.
    pub(crate) fn at(&self, thread: usize) -> At {
        lock(&self.sleepers).permits.at(thread)
    }

    /// Which thread holds that worker.
    pub(crate) fn holder(&self, worker: usize) -> Option<usize> {
        lock(&self.sleepers).permits.holder(worker)
    }

    /// Those that may be in a step without a worker.
    pub(crate) fn without_worker(&self) -> Vec<usize> {
        let are = |at| matches!(at, At::Stray | At::Blocked | At::Waiting);
        lock(&self.sleepers).permits.those(are).collect()
    }

    /// What the threads do.
    pub(crate) fn census(&self) -> ThreadCounts {
        let sleepers = lock(&self.sleepers);
        let permits = &sleepers.permits;
        ThreadCounts {
            blocked: permits.those(|at| at == At::Blocked).count(),
            waiting: permits.those(|at| at == At::Waiting).count(),
            strays: permits.those(|at| at == At::Stray).count(),
            standby: permits.those(|at| at == At::Standby).count(),
            threads: permits.threads(),
        }
    }
}
