//! Answers that a thread of the cluster provides later: async code can await them, and a thread can block on them.

use crate::threads::users_code;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// An answer that will arrive later. Await it as a future, or block on it with [`wait`](Self::wait).
///
/// Dropping it does not affect the operation.
#[must_use = "await it, or wait for it, to learn what came of it"]
pub struct Pending<T> {
    shared: Arc<ReplySlot<T>>,
}

/// Completes a [`Pending`]. If dropped, completes it with the value passed to [`pair`].
pub(crate) struct Completer<T> {
    shared: Arc<ReplySlot<T>>,
    /// `None` once the answer has been given.
    if_dropped: Option<T>,
}

struct ReplySlot<T> {
    state: Mutex<ReplyState<T>>,
}

enum ReplyState<T> {
    Waiting(Option<Waker>),
    Answered(T),
    Taken,
}

impl<T> ReplySlot<T> {
    fn lock(&self) -> MutexGuard<'_, ReplyState<T>> {
        // The only user code that runs under the lock is the clone of a waker, before anything has changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a pending answer and its completer. If the completer is dropped, the answer is `if_dropped`.
pub(crate) fn pair<T>(if_dropped: T) -> (Pending<T>, Completer<T>) {
    let shared = Arc::new(ReplySlot { state: Mutex::new(ReplyState::Waiting(None)) });
    (Pending { shared: Arc::clone(&shared) }, Completer { shared, if_dropped: Some(if_dropped) })
}

impl<T> Completer<T> {
    pub(crate) fn complete(mut self, answer: T) {
        self.if_dropped = None;
        self.put(answer);
    }

    fn put(&self, answer: T) {
        let before = std::mem::replace(&mut *self.shared.lock(), ReplyState::Answered(answer));
        // The waker is user code, so it is called without the lock.
        if let ReplyState::Waiting(Some(waker)) = before {
            users_code(move || waker.wake());
        }
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        if let Some(answer) = self.if_dropped.take() {
            self.put(answer);
        }
    }
}

impl<T> Pending<T> {
    /// Waits for the answer. If the caller is a process, its worker runs other processes meanwhile.
    ///
    /// # Panics
    /// If the answer was already taken by polling.
    pub fn wait(self) -> T {
        // This also works in a simulation, where a blocked thread would keep all others from running.
        postroom::block_on(self)
    }
}

impl<T> Future for Pending<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let waker = context.waker().clone();
        let mut state = self.shared.lock();
        match std::mem::replace(&mut *state, ReplyState::Taken) {
            ReplyState::Answered(answer) => Poll::Ready(answer),
            ReplyState::Taken => panic!("the answer was taken before: do not wait for what was polled to its end"),
            ReplyState::Waiting(before) => {
                *state = ReplyState::Waiting(Some(waker));
                drop(state);
                drop(before);
                Poll::Pending
            }
        }
    }
}

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    struct Counts(AtomicU32);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_answer_wakes_the_last_waker_once_and_is_returned() {
        let wakers: Vec<_> = (0..2).map(|_| Arc::new(Counts(AtomicU32::new(0)))).collect();
        let (mut pending, completer) = pair(0);
        for waker in &wakers {
            let waker = Waker::from(Arc::clone(waker));
            assert!(Pin::new(&mut pending).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        completer.complete(7);
        assert_eq!((wakers[0].0.load(Ordering::Relaxed), wakers[1].0.load(Ordering::Relaxed)), (0, 1));
        assert_eq!(pending.wait(), 7);
    }

    /// A user's waker, which may do anything, and panics here.
    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker");
        }
    }

    #[test]
    fn a_waker_that_panics_costs_nothing() {
        let (mut pending, completer) = pair(0);
        let waker = Waker::from(Arc::new(Panics));
        assert!(Pin::new(&mut pending).poll(&mut Context::from_waker(&waker)).is_pending());
        completer.complete(7);
        assert_eq!(pending.wait(), 7);
    }

    #[test]
    fn a_completer_that_is_dropped_answers() {
        let (pending, completer) = pair("dropped");
        let dropper = std::thread::spawn(move || drop(completer));
        assert_eq!(pending.wait(), "dropped");
        dropper.join().unwrap();
    }
}
