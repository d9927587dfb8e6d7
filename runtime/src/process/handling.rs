//! The message that a failed process was handling: noted during unwinding, read when the process exits.

use crate::pid::Pid;
use crate::recorder::ring::TypeName;
use std::cell::Cell;

thread_local! {
    /// The last process that failed on this thread, and its message.
    static FAILED: Cell<Option<(Pid, TypeName)>> = const { Cell::new(None) };
}

/// Notes the type of the message. The first note holds: it is the innermost.
#[cold]
pub(crate) fn note(pid: Pid, message: TypeName) {
    // Inaccessible in the destructors of a thread's own thread-locals.
    let _ = FAILED.try_with(|failed| {
        if failed.get().is_none_or(|(other, _)| other != pid) {
            failed.set(Some((pid, message)));
        }
    });
}

/// Returns the type of the message that the process failed in, if any.
pub(crate) fn seen(pid: Pid) -> Option<&'static str> {
    let failed = FAILED.try_with(Cell::get).ok().flatten();
    failed.filter(|(failed, _)| *failed == pid).map(|(_, message)| message())
}

pub(crate) fn take(pid: Pid) -> Option<&'static str> {
    let seen = seen(pid);
    let _ = FAILED.try_with(|failed| failed.set(None));
    seen
}
