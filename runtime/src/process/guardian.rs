//! The supervisor of a process, as the engine sees it.

use crate::{call::package::Package, exit::ExitReason, pid::Pid, util::defer::defer};
use std::{cell::RefCell, sync::Arc};

/// Follows a process from its start to its end: a supervisor, which also stops it when its host is shut down.
pub(crate) trait Guardian: Send + Sync {
    fn started(&self, pid: Pid);

    /// Its PID has become unroutable: the guardian must no longer give it out.
    fn ending(&self);

    /// Waits for the senders that got the PID from this guardian, and resumes those that waited for room.
    fn quiesce(&self);

    /// Takes an unhandled message; called in order.
    ///
    /// # Errors
    /// The package, if the guardian keeps none.
    fn take_unhandled(&self, package: Package) -> Result<(), Package>;

    /// It has ended, and its end has not been told yet: from here on the guardian counts it as ended.
    fn settle(&self, pid: Pid, reason: &ExitReason, handling: Option<&'static str>);

    /// It has ended, and its state has been dropped. `handling` is the type of the message in which it failed.
    fn ended(&self, pid: Pid, reason: &ExitReason, handling: Option<&'static str>);
}

thread_local! {
    /// The guardian of the process that this thread is exiting.
    static GUARDIAN: RefCell<Option<Arc<dyn Guardian>>> = const { RefCell::new(None) };
}

/// Runs `body`, which exits a process of that guardian.
pub(crate) fn while_leaving<R>(guardian: Option<Arc<dyn Guardian>>, body: impl FnOnce() -> R) -> R {
    if guardian.is_none() {
        return body();
    }
    let mut outer = replace(guardian);
    let _restore = defer(|| _ = replace(outer.take()));
    body()
}

fn replace(guardian: Option<Arc<dyn Guardian>>) -> Option<Arc<dyn Guardian>> {
    // Inaccessible in the destructors of a thread's own thread-locals, where nothing is supervised.
    GUARDIAN.try_with(|own| own.replace(guardian)).unwrap_or_default()
}

/// Transfers packages that the process had taken from its mailbox and not handled, oldest first, to its guardian. Those
/// that it refuses are dropped as dead letters.
pub(crate) fn transfer_unhandled(packages: impl IntoIterator<Item = Package>) {
    let guardian = GUARDIAN.try_with(|own| own.borrow().clone()).ok().flatten();
    for package in packages {
        if let Some(guardian) = &guardian {
            drop(guardian.take_unhandled(package));
        }
    }
}
