//! Processes that run users' code for the directory, and watch the processes in it: code of a user must not run on a
//! thread of the cluster.

use super::directory::Directory;
use postroom::prelude::*;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Something that may run a user's code.
pub(crate) type Errand = Box<dyn FnOnce() + Send>;

#[process]
pub(crate) struct Herald {
    pub(crate) directory: Arc<Directory>,
    pub(crate) watched: BTreeSet<Pid>,
}

#[process]
impl Herald {
    #[entry]
    pub(crate) fn serve(&mut self) {}

    /// A panic costs this errand only.
    #[message]
    pub(crate) fn run(&mut self, errand: Errand) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(errand)) {
            // Its drop may panic again.
            std::mem::forget(panic);
        }
    }

    /// A process that has ended already is reported too.
    #[message]
    pub(crate) fn watch(&mut self, pid: Pid) {
        if self.watched.insert(pid) && pid.monitor().is_err() {
            self.watched.remove(&pid);
            self.directory.ended(pid, &ExitReason::NoProcess);
        }
    }

    #[signal]
    fn down(&mut self, down: Down) {
        self.watched.remove(&down.pid);
        self.directory.ended(down.pid, &down.reason);
    }
}
