//! The process that stands for the cluster in the runtime: it starts processes for other nodes, and watches those that
//! hold names.

use postroom::prelude::*;
use std::collections::BTreeSet;

/// What a start runs: a type's `Default` is a user's code, so it runs in a process, not on a thread of the cluster.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Is told of each watched process that has ended.
pub(crate) type OnEnd = Box<dyn Fn(Pid) + Send>;

#[process]
pub(crate) struct Porter {
    pub(crate) on_end: OnEnd,
    pub(crate) watched: BTreeSet<Pid>,
}

#[process]
impl Porter {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    #[message]
    pub(crate) fn run(&mut self, job: Job) {
        job();
    }

    /// A process that has ended already is reported too.
    #[message]
    pub(crate) fn watch(&mut self, pid: Pid) {
        if self.watched.insert(pid) && pid.monitor().is_err() {
            (self.on_end)(pid);
        }
    }

    #[signal]
    fn down(&mut self, down: Down) {
        self.watched.remove(&down.pid);
        (self.on_end)(down.pid);
    }
}
