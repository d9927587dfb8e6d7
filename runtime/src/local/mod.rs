//! What a thread keeps to itself. Between threads, a token is parked, queued and taken by atomic exchanges; here it is
//! moved by loads and stores, and a message or an answer with it.
//!
//! * [`lock`]: the biased lock under which the thread moves tokens, and others take them; [`tokens`]: the tokens;
//! * [`cache`] and [`vacant_slots`]: two of the places that they are kept in;
//! * [`send`]: messages to processes that the calling thread keeps; [`answer`]: answers to them;
//! * [`evict`]: how a token is given up again.
//!
//! A process whose token is here while it has nothing to do is *kept*; the guide calls it warm.
//!
//! All of it saves time only: whatever it cannot do is done between threads ([`slots`](crate::slots)), which does not
//! know it. There the token of a process that is kept here counts as held by its thread, and a mark on the slot says so
//! ([`LastPermit`](crate::slots::slot::words::LastPermit)): who pushes something there and sees it asks the
//! [scheduler](crate::slots::Schedule::take_kept) for the token. A build with `--cfg postroom_no_local` keeps nothing
//! here, and passes the same tests, but for those that ask for what is kept, or for the run-next slot: they say so.

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

/// Makes these the tokens of the calling thread, while it runs processes. Returns those that were.
pub(crate) fn set_current(tokens: Option<&'static LocalTokens>) -> Option<&'static LocalTokens> {
    CURRENT.with(|current| current.replace(tokens))
}

#[inline(always)]
pub(crate) fn current() -> Option<&'static LocalTokens> {
    CURRENT.try_with(Cell::get).ok().flatten()
}

/// Takes the token of that process, if the calling thread keeps it.
#[inline(always)]
pub(crate) fn take_kept(slot: &'static Slot) -> Option<Token> {
    current()?.take(slot)
}
