//! How far an attached stream is, and the packages that wait outside of the mailbox, some of which came from one. See
//! [`attach`](crate::actor::machine::attach).

use crate::call::package::Package;
use crate::sync::{Arc, Mutex, lock};
use std::task::{Poll, Waker};

/// A package that is in the mailbox no more, or never was, and has not been handled.
pub(crate) struct Inbound {
    pub(crate) package: Package,
    /// The stream that it came from.
    pub(crate) from: Option<Arc<Attachment>>,
}

impl Inbound {
    /// One that came from the mailbox.
    pub(crate) fn of(package: Package) -> Self {
        Self { package, from: None }
    }
}

/// What the pump of a stream, its handle and the items on their way have in common.
#[derive(Default)]
pub(crate) struct Attachment(Mutex<AttachmentState>);

#[derive(Default)]
struct AttachmentState {
    /// Whether an item is on its way, or is being handled.
    outstanding: bool,
    detached: bool,
    /// Has the pump polled.
    waker: Option<Waker>,
}

impl Attachment {
    /// The process has handled the item that was on its way, or has thrown it away.
    pub(crate) fn handled(&self) {
        self.change(|state| state.outstanding = false);
    }

    /// An item goes on its way.
    pub(crate) fn send_off(&self) {
        lock(&self.0).outstanding = true;
    }

    /// Nothing comes any more.
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

    /// Returns whether the pump may go on, and if not, what to wake when it may; `Ready(false)`: never again.
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
