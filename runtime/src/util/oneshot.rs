//! A channel for one value, to a thread that blocks or a task that awaits.

use super::block_on::block_on_until;
use super::notifiers::wake;
use super::panics::Site;
use crate::sync::{AtomicBool, Ordering, SpinLock};
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::Instant;

pub(crate) struct Oneshot<T> {
    state: SpinLock<OneshotState<T>>,
    /// Whether a value has arrived since the channel was opened. Written under the lock, and a hint without it.
    has_arrived: AtomicBool,
}

enum OneshotState<T> {
    Empty(Option<Waker>),
    Full(T),
    /// The value was taken, or is no longer wanted.
    Over,
}

impl<T> Oneshot<T> {
    pub(crate) fn new() -> Self {
        Self { state: SpinLock::new(OneshotState::Empty(None)), has_arrived: AtomicBool::new(false) }
    }

    /// Sends the value. Returns false, and drops the value, if another was sent before, or if it is no longer wanted.
    pub(crate) fn put(&self, value: T) -> bool {
        let put = self.state.with(|state| {
            let OneshotState::Empty(waker) = state else { return Err(value) };
            let waker = waker.take();
            *state = OneshotState::Full(value);
            self.has_arrived.store(true, Ordering::Relaxed);
            Ok(waker)
        });
        if let Ok(Some(waker)) = put {
            wake(Site::Waker, waker);
            return true;
        }
        put.is_ok()
    }

    /// Marks the value as no longer wanted. Returns whether it had arrived without being taken.
    pub(crate) fn abandon(&self) -> bool {
        let before = self.state.with(|state| std::mem::replace(state, OneshotState::Over));
        matches!(before, OneshotState::Full(_))
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.state.with(|state| matches!(state, OneshotState::Over))
    }

    /// Returns whether the value is still awaited: it has not arrived, and has not been abandoned.
    pub(crate) fn is_awaited(&self) -> bool {
        self.look(|is_awaited| is_awaited)
    }

    /// Waits for another value, after the last one was taken. No other thread may be about to send one.
    pub(crate) fn reopen(&self) {
        let _before = self.state.with(|state| {
            self.has_arrived.store(false, Ordering::Relaxed);
            std::mem::replace(state, OneshotState::Empty(None))
        });
    }

    /// Calls `look` with whether the value is awaited. That does not change during the call.
    pub(crate) fn look<R>(&self, look: impl FnOnce(bool) -> R) -> R {
        self.state.with(|state| look(matches!(state, OneshotState::Empty(_))))
    }

    pub(crate) fn poll(&self, waker: &Waker) -> Poll<T> {
        // Cloned and dropped outside the lock, since both may run foreign code. A poll that finds the value needs none.
        let mut new = (!self.has_arrived.load(Ordering::Relaxed)).then(|| waker.clone());
        let (poll, _old) = self.state.with(|state| match state {
            OneshotState::Empty(waker) => (Poll::Pending, std::mem::replace(waker, new.take())),
            OneshotState::Full(_) => match std::mem::replace(state, OneshotState::Over) {
                OneshotState::Full(value) => (Poll::Ready(value), None),
                OneshotState::Empty(_) | OneshotState::Over => unreachable!("it is full"),
            },
            OneshotState::Over => (Poll::Pending, None),
        });
        poll
    }

    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Option<T> {
        block_on_until(pin!(poll_fn(|context| self.poll(context.waker()))), deadline)
    }
}
