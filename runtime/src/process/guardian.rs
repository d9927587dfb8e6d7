//! Who looks after a process, and takes what it leaves.

use crate::call::package::Package;
use crate::exit::ExitReason;
use crate::pid::Pid;
use crate::util::defer::defer;
use std::cell::RefCell;
use std::sync::Arc;

/// What looks after a process from its start to its end: a supervisor, which also stops it when its host goes down.
pub(crate) trait Guardian: Send + Sync {
    /// The process has been started.
    fn born(&self, pid: Pid);

    /// Its PID has become unroutable: this guardian gives it out no more.
    fn ending(&self);

    /// Waits until all that got the PID from this guardian are done with it, and resumes those that waited for room.
    fn quiesce(&self);

    /// Takes what it has not handled, in order.
    ///
    /// # Errors
    /// The package, if nothing is kept.
    fn inherit(&self, package: Package) -> Result<(), Package>;

    /// It has ended, and its state has been dropped. `handling` is the type of the message in which it failed.
    fn ended(&self, pid: Pid, reason: &ExitReason, handling: Option<&'static str>);
}

thread_local! {
    /// Who takes what the process leaves that this thread takes apart.
    static GUARDIAN: RefCell<Option<Arc<dyn Guardian>>> = const { RefCell::new(None) };
}

/// Runs `body`, in which a process is taken apart that `successor` looks after.
pub(crate) fn while_leaving<R>(successor: Option<Arc<dyn Guardian>>, body: impl FnOnce() -> R) -> R {
    if successor.is_none() {
        return body();
    }
    let mut outer = replace(successor);
    let _restore = defer(|| _ = replace(outer.take()));
    body()
}

fn replace(successor: Option<Arc<dyn Guardian>>) -> Option<Arc<dyn Guardian>> {
    // Not there any more in the destructors of a thread's own variables, where nothing is supervised.
    GUARDIAN.try_with(|own| own.replace(successor)).unwrap_or_default()
}

/// Leaves packages that the process had taken out of its mailbox and not come to, the oldest first. What is not taken
/// is dropped: dead letters.
pub(crate) fn leave(packages: impl IntoIterator<Item = Package>) {
    let successor = GUARDIAN.try_with(|own| own.borrow().clone()).ok().flatten();
    for package in packages {
        if let Some(successor) = &successor {
            drop(successor.inherit(package));
        }
    }
}
