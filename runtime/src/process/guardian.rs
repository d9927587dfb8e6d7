//! The supervisor of a process, as the engine sees it.

use crate::{call::package::Package, exit::ExitReason, pid::Pid, util::defer::defer};
use std::{cell::RefCell, sync::Arc};

/// Follows a process from its start to its end. Supervisors implement it. They also stop the process when its host
/// shuts down.
pub(crate) trait Guardian: Send + Sync {
    fn started(&self, pid: Pid);

    /// Called when the process's PID has become unroutable: the guardian must no longer hand it out.
    fn ending(&self);

    /// Waits for the senders that got the PID from this guardian. The caller has resumed those that were suspended.
    fn quiesce(&self);

    /// Takes an unhandled message. Called in the order of the messages.
    ///
    /// # Errors
    /// Returns the package if the guardian does not keep it.
    fn take_unhandled(&self, package: Package) -> Result<(), Package>;

    /// Called when the process has ended but its end has not been reported yet. From here on, the guardian counts it as
    /// ended.
    fn settle(&self, pid: Pid, reason: &ExitReason, handling: Option<&'static str>);

    /// Called when the process has ended and its state has been dropped. `handling` is the type of the message in which
    /// it failed.
    fn ended(&self, pid: Pid, reason: &ExitReason, handling: Option<&'static str>);
}

thread_local! {
    /// The guardian of the process whose exit this thread is performing.
    static GUARDIAN: RefCell<Option<Arc<dyn Guardian>>> = const { RefCell::new(None) };
}

/// Runs `body`, which performs the exit of a process with this guardian.
pub(crate) fn while_leaving<R>(guardian: Option<Arc<dyn Guardian>>, body: impl FnOnce() -> R) -> R {
    if guardian.is_none() {
        return body();
    }
    let mut outer = replace(guardian);
    let _restore = defer(|| _ = replace(outer.take()));
    body()
}

fn replace(guardian: Option<Arc<dyn Guardian>>) -> Option<Arc<dyn Guardian>> {
    // This is inaccessible while the thread destroys its thread-locals. Nothing is supervised at that time.
    GUARDIAN.try_with(|own| own.replace(guardian)).unwrap_or_default()
}

/// Transfers to the guardian the packages that the exiting process had taken from its mailbox and not handled, oldest
/// first. Packages that no guardian takes become dead letters.
pub(crate) fn transfer_unhandled(packages: impl IntoIterator<Item = Package>) {
    let guardian = GUARDIAN.try_with(|own| own.borrow().clone()).ok().flatten();
    for package in packages {
        if let Some(guardian) = &guardian {
            drop(guardian.take_unhandled(package));
        }
    }
}
