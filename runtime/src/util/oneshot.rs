//! A channel for one value, to a thread that blocks or a task that awaits.

use super::block_on::block_on_until;
use super::notifiers::wake;
use super::panics::Site;
use crate::sync::{Mutex, lock};
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::Instant;

pub(crate) struct Oneshot<T>(Mutex<OneshotState<T>>);

enum OneshotState<T> {
    Empty(Option<Waker>),
    Full(T),
    /// The value was taken, or is no longer wanted.
    Over,
}

impl<T> Oneshot<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(OneshotState::Empty(None)))
    }

    /// Sends the value. Returns false, and drops the value, if another was sent before, or if it is no longer wanted.
    pub(crate) fn put(&self, value: T) -> bool {
        let mut state = lock(&self.0);
        let waker = match &mut *state {
            OneshotState::Empty(waker) => waker.take(),
            OneshotState::Full(_) | OneshotState::Over => return false,
        };
        *state = OneshotState::Full(value);
        drop(state);
        if let Some(waker) = waker {
            wake(Site::Waker, waker);
        }
        true
    }

    /// Marks the value as no longer wanted. Returns whether it had arrived without being taken.
    pub(crate) fn abandon(&self) -> bool {
        let before = std::mem::replace(&mut *lock(&self.0), OneshotState::Over);
        matches!(before, OneshotState::Full(_))
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(*lock(&self.0), OneshotState::Over)
    }

    /// Returns whether the value is still awaited: it has not arrived, and has not been abandoned.
    pub(crate) fn is_awaited(&self) -> bool {
        self.look(|is_awaited| is_awaited)
    }

    /// Waits for another value, after the last one was taken. No other thread may be about to send one.
    pub(crate) fn reopen(&self) {
        *lock(&self.0) = OneshotState::Empty(None);
    }

    /// Calls `look` with whether the value is awaited. That does not change during the call.
    pub(crate) fn look<R>(&self, look: impl FnOnce(bool) -> R) -> R {
        let state = lock(&self.0);
        look(matches!(*state, OneshotState::Empty(_)))
    }

    pub(crate) fn poll(&self, waker: &Waker) -> Poll<T> {
        // Cloned outside the lock: cloning and dropping a waker may run foreign code.
        let new = waker.clone();
        let mut state = lock(&self.0);
        match std::mem::replace(&mut *state, OneshotState::Over) {
            OneshotState::Full(value) => Poll::Ready(value),
            OneshotState::Empty(old) => {
                *state = OneshotState::Empty(Some(new));
                drop(state);
                drop(old);
                Poll::Pending
            }
            OneshotState::Over => Poll::Pending,
        }
    }

    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Option<T> {
        block_on_until(pin!(poll_fn(|context| self.poll(context.waker()))), deadline)
    }
}
