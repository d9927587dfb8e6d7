//! The process that a thread runs.
//!
//! Code of a process that calls back on its thread (a link, a monitor, a send) finds its slot here, and accesses what
//! belongs to the holder of the slot's token. So:
//!
//! * *running:begin* the thread, which has the token, sets this before it touches anything of the process;
//! * *running:end* it clears this **before** it parks the token or queues it, and not after: from then on another
//!   thread may run the process, and the drop of a value on this one, or any other user code here, must not find a slot
//!   that belongs to another thread by now.
//!
//! Hence: *while a slot is named here and its incarnation is open, this thread has its token*. Two things rest on that:
//! access of a process's code to its own slot (`own`), and that a panic, wherever it comes from, ends the process named
//! here (`ThreadContext::panicked`). When a process exits, its incarnation is closed first, and its slot stays named
//! until all have been notified of the end, which is later than its token is parked: that code is still the process's
//! own, and finds nothing to access.
//!
//! A model is in `tests/models`.

use crate::slots::{Slot, Token};
use crate::sync::{AtomicPtr, Ordering};
use std::ptr;

/// The process that a thread runs. Written by that thread; others read it occasionally.
pub(crate) struct RunningProcess(AtomicPtr<Slot>);

impl RunningProcess {
    pub(crate) fn nothing() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// *running:begin*
    #[inline(always)]
    pub(crate) fn begin(&self, token: &Token) {
        self.0.store(ptr::from_ref(token.slot()).cast_mut(), Ordering::Relaxed);
    }

    /// *running:end*
    #[inline(always)]
    pub(crate) fn end(&self) {
        self.0.store(ptr::null_mut(), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> Option<&'static Slot> {
        // SAFETY: only addresses of slots are stored, and slots are never freed.
        unsafe { self.0.load(Ordering::Relaxed).as_ref() }
    }
}
