//! The processes that a node of a cluster has in the runtime: they run users' code, and watch processes of the node. A
//! thread of the cluster does neither, since users' code may block, and panic.
//!
//! Each has one duty, so that none waits for the code of another: to start processes for other nodes; to hear of the
//! ends of those that hold names; to ask the [policy](crate::node::policy); to hand out what the directory has for its
//! processes, and hear of their ends; and to start processes by key.

use postroom::prelude::*;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Something that may run a user's code: a type's `Default`, a policy, the wakers of processes.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Is told of each watched process that has ended. May run a user's code: the text of an error is one.
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

    /// A panic costs this job only.
    #[message]
    pub(crate) fn run(&mut self, job: Job) {
        contain(job);
    }

    /// A process that has ended already is reported too.
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
    /// Begins one on this host. Returns `None` if that is being shut down.
    pub(crate) fn begin(host: Host, on_end: OnEnd) -> Option<Address<Self>> {
        let porter = Self { on_end, watched: BTreeSet::new() };
        host.spawn(porter).mailbox(Bound::Unbounded).serve().ok()
    }

    fn ended(&mut self, pid: Pid, reason: ExitReason) {
        self.watched.remove(&pid);
        let on_end = &self.on_end;
        contain(move || {
            on_end(pid, &reason);
            // Perhaps the last to have the error, whose drop is a user's code too.
            drop(reason);
        });
    }
}

/// Runs what may panic.
fn contain(job: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
        // Its drop may panic again.
        std::mem::forget(panic);
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
            // The notice comes as a signal, behind the answer.
            runtime.until_idle().unwrap();
            assert_eq!(*reported.lock().unwrap(), vec![ended; times]);
        }
    }
}
