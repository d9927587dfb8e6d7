//! Replacing a process's definition. The order of the steps is the contract:
//!
//! 1. the new process is installed, with its type;
//! 2. the old one is closed and dropped: callers that it left unanswered are notified;
//! 3. the requester is notified.
//!
//! Everything else in the slot, from the mailbox to the waiters for the end, is untouched.

use super::exit::close;
use crate::exit::ExitReason;
use crate::process::handover::Successor;
use crate::slots::Token;
use crate::sync::Ordering;
use crate::util::panics::{Site, contain};
use std::ptr;

/// The entry that is shown for an upgraded process.
const ENTRY: &&str = &"(upgrade)";

/// Installs `successor`. Returns the panic of the old definition's close, or of the new definition, if there was one:
/// such a panic ends the process.
pub(crate) fn succeed(token: &mut Token, successor: Successor) -> Option<ExitReason> {
    let Successor { body, kind, done } = successor;
    let new_traps = contain(Site::TrapsExits, || body.traps_exits());
    let old = token.body().replace(body);
    token.slot().metadata.kind.store(ptr::from_ref(kind).cast_mut(), Ordering::Release);
    token.slot().metadata.entry.store(ptr::from_ref::<&'static str>(ENTRY).cast_mut(), Ordering::Release);
    let old_traps = old.as_ref().map(|old| contain(Site::TrapsExits, || old.traps_exits()));
    // A choice made with `trap_exits` is kept if both definitions have the same default.
    match (old_traps, &new_traps) {
        (Some(Ok(old)), Ok(new)) if old != *new => token.make_cold_state().links().trap(*new),
        _ => {}
    }
    let panic = old.and_then(|old| close(old, &ExitReason::Normal));
    let panic = panic.or(new_traps.err().map(|panic| ExitReason::Panic(panic.into())));
    if panic.is_none()
        && let Some(done) = done
    {
        // This may call the waker of a waiting thread. A panic of that waker is contained where it is called.
        done();
    }
    panic
}
