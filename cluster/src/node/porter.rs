//! The processes that a node of a cluster has in the runtime: they run user code, and watch processes of the node. A
//! thread of the cluster does neither, since user code may block or panic.
//!
//! Each porter has one task, so that no task waits for the user code of another: starting processes for other nodes;
//! reporting the ends of processes that hold names; asking the [policy](crate::node::policy); delivering the
//! directory's messages to its processes, and reporting their ends; and starting processes by key.

use postroom::__private::discard_panic;
use postroom::prelude::*;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A job that may run user code: a type's `Default`, a policy, the wakers of processes.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A callback for each watched process that has ended. It may run user code, such as the code that formats an error.
pub(crate) type OnEnd = Box<dyn Fn(Pid, &ExitReason) + Send>;

#[process]
pub(crate) struct Porter {
    on_end: OnEnd,
    watched: BTreeSet<Pid>,
}

#[process]
impl Porter {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    /// Runs a job. A panic affects only this job.
    #[message]
    pub(crate) fn run(&mut self, job: Job) {
        contain(job);
    }

    /// Watches a process. A process that has already ended is reported too.
    #[message]
    pub(crate) fn watch(&mut self, pid: Pid) {
        if self.watched.insert(pid) && pid.monitor().is_err() {
            self.ended(pid, ExitReason::NoProcess);
        }
    }

    #[signal]
    fn down(&mut self, down: Down) {
        self.ended(down.pid, down.reason);
    }
}

impl Porter {
    /// Starts a porter on this host. Returns `None` if the host is being shut down.
    pub(crate) fn begin(host: Host, on_end: OnEnd) -> Option<Address<Self>> {
        let porter = Self { on_end, watched: BTreeSet::new() };
        host.spawn(porter).mailbox(Bound::Unbounded).serve().ok()
    }

    fn ended(&mut self, pid: Pid, reason: ExitReason) {
        self.watched.remove(&pid);
        let on_end = &self.on_end;
        contain(move || {
            on_end(pid, &reason);
            // The reason may be the last reference to an error, whose drop is user code too.
            drop(reason);
        });
    }
}

/// Runs a job that may panic.
fn contain(job: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
        discard_panic(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postroom::Runtime;
    use std::sync::{Arc, Mutex};

    /// Mutation: leave the process in `watched`.
    #[test]
    fn a_process_that_has_ended_is_reported_whenever_it_is_watched() {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let ended = Porter::begin(*runtime, Box::new(|_, _| {})).unwrap().pid();
        ended.kill();
        ended.join().wait();
        let reported = Arc::<Mutex<Vec<Pid>>>::default();
        let notes = Arc::clone(&reported);
        let on_end: OnEnd = Box::new(move |pid, _| notes.lock().unwrap().push(pid));
        let porter = Porter::begin(*runtime, on_end).unwrap();
        for times in 1..=3 {
            porter.watch(ended).wait().unwrap();
            // The notice arrives as a signal, after the answer.
            runtime.until_idle().unwrap();
            assert_eq!(*reported.lock().unwrap(), vec![ended; times]);
        }
    }
}
