//! The message that a failed process was handling: recorded during unwinding, read when the process exits.

use crate::pid::Pid;
use crate::recorder::ring::TypeName;
use std::cell::Cell;

thread_local! {
    /// The process that failed most recently on this thread, and the type of its message.
    static FAILED: Cell<Option<(Pid, TypeName)>> = const { Cell::new(None) };
}

/// Records the type of the message. The first record is kept, since it is the innermost.
#[cold]
pub(crate) fn note(pid: Pid, message: TypeName) {
    // Inaccessible while the thread destroys its thread-locals.
    let _ = FAILED.try_with(|failed| {
        if failed.get().is_none_or(|(other, _)| other != pid) {
            failed.set(Some((pid, message)));
        }
    });
}

/// Returns the type of the message in which the process failed, if any.
pub(crate) fn seen(pid: Pid) -> Option<&'static str> {
    let failed = FAILED.try_with(Cell::get).ok().flatten();
    failed.filter(|(failed, _)| *failed == pid).map(|(_, message)| message())
}

pub(crate) fn take(pid: Pid) -> Option<&'static str> {
    let seen = seen(pid);
    let _ = FAILED.try_with(|failed| failed.set(None));
    seen
}
