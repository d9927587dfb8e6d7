//! Tokens that a thread keeps to itself. Between threads, a token is parked, queued and taken by atomic exchanges; here
//! it is moved by loads and stores, along with a message or an answer.
//!
//! * [`lock`]: the biased lock under which the thread moves tokens, and others take them; [`tokens`]: the tokens;
//! * [`cache`] and [`vacant_slots`]: two of the places in which they are kept;
//! * [`send`]: messages to processes that the calling thread keeps; [`answer`]: answers to them;
//! * [`evict`]: how a token is given up again.
//!
//! A process whose token is here while it has nothing to do is *kept*; the guide calls it warm.
//!
//! This module only saves time: [`slots`](crate::slots) does whatever this module cannot do, and does not depend on it.
//! To `slots`, the token of a kept process is held by its thread, and a mark in the slot shows that it is kept
//! ([`LastPermit`](crate::slots::slot::words::LastPermit)). A sender that sees the mark after its push asks the
//! [scheduler](crate::slots::Schedule::take_kept) for the token. A build with `--cfg postroom_no_local` keeps nothing
//! here and passes the same tests, except for those of kept tokens or of the run-next slot. These tests are marked.

pub(crate) mod answer;
mod cache;
pub(crate) mod evict;
pub(crate) mod lock;
pub(crate) mod send;
pub(crate) mod tokens;
pub(crate) mod vacant_slots;

use crate::slots::{Slot, Token};
use std::cell::Cell;
use tokens::LocalTokens;

#[cfg(not(loom))]
thread_local! {
    static CURRENT: Cell<Option<&'static LocalTokens>> = const { Cell::new(None) };
}
#[cfg(loom)]
loom::thread_local! {
    static CURRENT: Cell<Option<&'static LocalTokens>> = Cell::new(None);
}

/// Sets the tokens of the calling thread, while it runs processes. Returns the previous ones.
pub(crate) fn set_current(tokens: Option<&'static LocalTokens>) -> Option<&'static LocalTokens> {
    CURRENT.with(|current| current.replace(tokens))
}

#[inline(always)]
pub(crate) fn current() -> Option<&'static LocalTokens> {
    CURRENT.try_with(Cell::get).ok().flatten()
}

/// Takes the token of the process in `slot`, if the calling thread keeps it.
#[inline(always)]
pub(crate) fn take_kept(slot: &'static Slot) -> Option<Token> {
    current()?.take(slot)
}
