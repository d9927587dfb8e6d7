//! Which process a thread runs.
//!
//! Code of a process that is called back on its thread (a link, a monitor, a send) finds its slot here, and touches
//! what belongs to the holder of the slot's token. So:
//!
//! * *running:begin* the thread, which has the token, says so before it touches anything of the process;
//! * *running:end* it takes that back **before** it parks the token or queues it, and not after: from then on
//!   another thread may run the process, and the drop of a value on this one, or whatever else a user's code does here,
//!   must not find a slot that is another thread's by now.
//!
//! Hence: *while a slot is named here and the life in it is open, this thread has its token*. Two things rest on that:
//! what the code of a process reaches of its own slot (`own`), and that a panic, wherever it comes from, ends the
//! process that is named here (`Context::panicked`). At the end of a process its life is closed first, and its slot
//! stays named until all that hear of the end have been told, which is later than its token goes: that code is still
//! the process's own, and finds nothing to touch.
//!
//! A model is in `tests/models`.

use crate::slots::{Slot, Token};
use crate::sync::{AtomicPtr, Ordering};
use std::ptr;

/// See the module. Written by its own thread; others look now and then.
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

    /// The process that the thread runs.
    #[inline(always)]
    pub(crate) fn slot(&self) -> Option<&'static Slot> {
        // SAFETY: only addresses of slots are stored, and slots are never freed.
        unsafe { self.0.load(Ordering::Relaxed).as_ref() }
    }
}
