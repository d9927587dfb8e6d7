//! How another definition takes a process's place. The order is the promise:
//!
//! 1. the new one is in its place, and known by its type;
//! 2. the old one is closed and dropped, as what it is: the callers that it left unanswered are told;
//! 3. the process that asked for it is told.
//!
//! Everything else that the slot has, from the mailbox to those who wait for the end, is untouched.

use super::exit::close;
use crate::exit::ExitReason;
use crate::process::handover::Successor;
use crate::slots::Token;
use crate::sync::Ordering;
use crate::util::panics::{Site, contain};
use std::ptr;

/// The entry of a process that took another's place.
const ENTRY: &&str = &"(upgrade)";

/// Puts `successor` in the place of the process. Returns the panic of the old one's close, or of the new one, of which
/// the process is to end.
pub(crate) fn succeed(token: &mut Token, successor: Successor) -> Option<ExitReason> {
    let Successor { body, kind, done } = successor;
    let new_traps = contain(Site::TrapsExits, || body.traps_exits());
    let old = token.body().replace(body);
    token.slot().metadata.kind.store(ptr::from_ref(kind).cast_mut(), Ordering::Release);
    token.slot().metadata.entry.store(ptr::from_ref::<&'static str>(ENTRY).cast_mut(), Ordering::Release);
    let old_traps = old.as_ref().map(|old| contain(Site::TrapsExits, || old.traps_exits()));
    // What the process has said itself, with `trap_exits`, stands if both definitions are alike.
    match (old_traps, &new_traps) {
        (Some(Ok(old)), Ok(new)) if old != *new => token.make_cold_state().links().trap(*new),
        _ => {}
    }
    let panic = old.and_then(|old| close(old, &ExitReason::Normal));
    let panic = panic.or(new_traps.err().map(|panic| ExitReason::Panic(panic.into())));
    if panic.is_none()
        && let Some(done) = done
    {
        // A thread that waits has a waker, which is contained there.
        done();
    }
    panic
}
