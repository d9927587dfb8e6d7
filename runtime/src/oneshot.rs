//! One value, handed over once, to a thread that blocks or a task that awaits.

use crate::clock::instant_now;
use crate::sync::{Arc, Mutex, ThreadHandle, current_thread, lock, park, unpark};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// See the module.
pub(crate) struct Oneshot<T>(Mutex<State<T>>);

enum State<T> {
    Empty(Option<Waker>),
    Full(T),
    /// Taken, or not wanted any more.
    Over,
}

impl<T> Oneshot<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State::Empty(None)))
    }

    /// Hands the value over. A second one is dropped.
    pub(crate) fn put(&self, value: T) {
        let mut state = lock(&self.0);
        let waker = match &mut *state {
            State::Empty(waker) => waker.take(),
            State::Full(_) | State::Over => return,
        };
        *state = State::Full(value);
        drop(state);
        if let Some(waker) = waker {
            // A waker is its executor's code, and whoever hands the value over is no part of that.
            let _panic = crate::panics::contain(|| waker.wake());
        }
    }

    /// Says that nobody wants the value any more.
    pub(crate) fn abandon(&self) {
        let before = std::mem::replace(&mut *lock(&self.0), State::Over);
        drop(before);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(*lock(&self.0), State::Over)
    }

    pub(crate) fn poll(&self, waker: &Waker) -> Poll<T> {
        // Cloned outside the lock: cloning and dropping a waker may run anything.
        let new = waker.clone();
        let mut state = lock(&self.0);
        match std::mem::replace(&mut *state, State::Over) {
            State::Full(value) => Poll::Ready(value),
            State::Empty(old) => {
                *state = State::Empty(Some(new));
                drop(state);
                drop(old);
                Poll::Pending
            }
            State::Over => Poll::Pending,
        }
    }

    /// Blocks the thread until the value is there, or until `deadline`.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Option<T> {
        block_on_until(pin!(poll_fn(|context| self.poll(context.waker()))), deadline)
    }
}

/// Wakes a thread.
struct Unpark(ThreadHandle);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        unpark(&self.0);
    }
}

/// Runs `future` on the calling thread until it is ready.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    match block_on_until(pin!(future), None) {
        Some(output) => output,
        None => unreachable!("only a deadline cuts it short"),
    }
}

/// The same, until `deadline`.
pub(crate) fn block_on_until<F: Future>(mut future: Pin<&mut F>, deadline: Option<Instant>) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(current_thread())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        match deadline.map(|deadline| deadline.saturating_duration_since(instant_now())) {
            Some(Duration::ZERO) => return None,
            rest => park(rest),
        }
    }
}
