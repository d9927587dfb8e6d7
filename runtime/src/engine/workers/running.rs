//! The process that a thread runs.
//!
//! Code of a process that calls the runtime on its thread (to link, monitor or send) finds its slot here, and accesses
//! data that belongs to the holder of the slot's token. Therefore:
//!
//! * *running:begin* the thread, which has the token, sets this before it touches anything of the process;
//! * *running:end* it clears this **before** it parks the token or queues it, and not after: from then on another
//!   thread may run the process, and the drop of a value on this one, or any other user code here, must not find a slot
//!   that by then belongs to another thread.
//!
//! Hence: *while a slot is named here and its incarnation is open, this thread has its token*. Two things rely on that:
//! a process's code may access its own slot (`own`), and a panic, wherever it comes from, ends the process named here
//! (`ThreadContext::panicked`). When a process exits, its incarnation is closed first. Its slot stays named until all
//! have been notified of the end, even after its token is parked: code that runs until then is still the process's own,
//! and finds nothing to access.
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

    /// Performs *running:begin*.
    #[inline(always)]
    pub(crate) fn begin(&self, token: &Token) {
        self.0.store(ptr::from_ref(token.slot()).cast_mut(), Ordering::Relaxed);
    }

    /// Performs *running:end*.
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
