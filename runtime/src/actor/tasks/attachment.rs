//! The progress of an attached stream, and messages that wait outside of the mailbox. See
//! [`attach`](crate::actor::machine::attach).

use crate::Package;
use crate::sync::{Arc, Mutex, lock};
use std::task::{Poll, Waker};

/// A message outside of the mailbox that has not been handled.
pub(crate) struct StashedMessage {
    pub(crate) package: Package,
    pub(crate) from: Option<Arc<Attachment>>,
}

impl StashedMessage {
    pub(crate) fn of(package: Package) -> Self {
        Self { package, from: None }
    }
}

/// The state shared by a stream's pump, its handle, and its item in flight.
#[derive(Default)]
pub(crate) struct Attachment(Mutex<AttachmentState>);

#[derive(Default)]
struct AttachmentState {
    /// Whether an item is in flight or being handled.
    outstanding: bool,
    detached: bool,
    /// Wakes the pump.
    waker: Option<Waker>,
}

impl Attachment {
    /// Called when the process has handled or discarded the item in flight.
    pub(crate) fn handled(&self) {
        self.change(|state| state.outstanding = false);
    }

    pub(crate) fn send_off(&self) {
        lock(&self.0).outstanding = true;
    }

    pub(crate) fn detach(&self) {
        self.change(|state| state.detached = true);
    }

    pub(crate) fn is_detached(&self) -> bool {
        lock(&self.0).detached
    }

    fn change(&self, change: impl FnOnce(&mut AttachmentState)) {
        let mut state = lock(&self.0);
        change(&mut state);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns `Ready(true)` if the pump may continue, `Ready(false)` if the stream was detached; otherwise stores
    /// the waker.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<bool> {
        let new = waker.clone();
        let mut state = lock(&self.0);
        if state.detached {
            return Poll::Ready(false);
        }
        let before = state.waker.replace(new);
        let poll = if state.outstanding { Poll::Pending } else { Poll::Ready(true) };
        drop(state);
        drop(before);
        poll
    }
}
