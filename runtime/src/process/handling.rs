//! Which message a process was handling when it failed: noted where the failure passes, asked for at the process's end.

use crate::pid::Pid;
use std::cell::Cell;

/// The name of a type, once it is asked for.
type TypeName = fn() -> &'static str;

thread_local! {
    /// The process that failed last on this thread, and the message that it was handling.
    static FAILED: Cell<Option<(Pid, TypeName)>> = const { Cell::new(None) };
}

/// The process fails while it handles a message of that type. The first that is noted counts: it is the innermost.
#[cold]
pub(crate) fn note(pid: Pid, message: TypeName) {
    // Not there any more in the destructors of a thread's own variables.
    let _ = FAILED.try_with(|failed| {
        if failed.get().is_none_or(|(other, _)| other != pid) {
            failed.set(Some((pid, message)));
        }
    });
}

/// The type of the message that the process failed in, if it did.
pub(crate) fn seen(pid: Pid) -> Option<&'static str> {
    let failed = FAILED.try_with(Cell::get).ok().flatten();
    failed.filter(|(failed, _)| *failed == pid).map(|(_, message)| message())
}

/// The same; it is forgotten.
pub(crate) fn take(pid: Pid) -> Option<&'static str> {
    let seen = seen(pid);
    let _ = FAILED.try_with(|failed| failed.set(None));
    seen
}
