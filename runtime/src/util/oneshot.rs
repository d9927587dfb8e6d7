//! A channel for one value, to a thread that blocks or a task that awaits.

use super::notifiers::wake;
use super::panics::Site;
use crate::env::clock::instant_now;
use crate::sync::{Arc, AtomicU8, AtomicU64, Mutex, Ordering, ThreadHandle, current_thread, lock, park, unpark};
use crate::util::defer::defer;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

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

/// A waker that unparks a thread, at most once for each time that the thread rests.
struct Unpark {
    thread: ThreadHandle,
    state: AtomicU8,
}

/// The thread polls, or is about to.
const POLLING: u8 = 0;
/// The thread has found its future pending, and is parked or about to be.
const RESTING: u8 = 1;
/// The thread was woken since it began to poll.
const WOKEN: u8 = 2;

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::SeqCst) == RESTING {
            unpark(&self.thread);
        }
    }
}

pub(crate) trait RestWatcher: Sync {
    fn rests(&self);
}

/// A thread that blocks on behalf of a process, as other threads see it.
pub(crate) struct Waiter {
    /// The waker of the thread's innermost `block_on`.
    innermost: Mutex<Option<Arc<Unpark>>>,
    /// Number of times that the thread was about to rest.
    rests: AtomicU64,
    watch: &'static dyn RestWatcher,
}

impl Waiter {
    pub(crate) fn new(watch: &'static dyn RestWatcher) -> Arc<Self> {
        Arc::new(Self { innermost: Mutex::new(None), rests: AtomicU64::new(0), watch })
    }

    /// Returns a number that changes with each rest. If two checks find the thread at rest with the same number, it was
    /// at rest from the first check to the second.
    pub(crate) fn rests(&self) -> u64 {
        self.rests.load(Ordering::SeqCst)
    }

    /// Returns whether the thread is at rest and has not been woken.
    pub(crate) fn is_at_rest(&self) -> bool {
        lock(&self.innermost).as_ref().is_some_and(|unpark| unpark.state.load(Ordering::SeqCst) == RESTING)
    }
}

thread_local! {
    /// The `Waiter` through which other threads observe the calling thread, if there is one.
    static WAITER: RefCell<Option<Arc<Waiter>>> = const { RefCell::new(None) };
}

/// Makes other threads observe the calling thread as `waiter`. Returns its previous one.
pub(crate) fn be_seen_as(waiter: Option<Arc<Waiter>>) -> Option<Arc<Waiter>> {
    WAITER.replace(waiter)
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    match block_on_until(pin!(future), None) {
        Some(output) => output,
        None => unreachable!("only a deadline cuts it short"),
    }
}

/// Runs `future` until it completes or `deadline` passes, in which case it returns `None`.
pub(crate) fn block_on_until<F: Future>(mut future: Pin<&mut F>, deadline: Option<Instant>) -> Option<F::Output> {
    let unpark = Arc::new(Unpark { thread: current_thread(), state: AtomicU8::new(POLLING) });
    // `WAITER` may be inaccessible in the destructors of a thread's own thread-locals; by then no other thread observes
    // this one.
    let waiter = WAITER.try_with(|waiter| waiter.borrow().clone()).ok().flatten();
    let mut outer = waiter.as_ref().and_then(|waiter| lock(&waiter.innermost).replace(unpark.clone()));
    // Restores the waker of the enclosing `block_on`.
    let _inside = defer(|| {
        if let Some(waiter) = &waiter {
            *lock(&waiter.innermost) = outer.take();
        }
    });
    let waker = Waker::from(unpark.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        unpark.state.swap(POLLING, Ordering::SeqCst);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        let rest = deadline.map(|deadline| deadline.saturating_duration_since(instant_now()));
        if rest == Some(Duration::ZERO) {
            return None;
        }
        if let Some(waiter) = &waiter {
            waiter.rests.fetch_add(1, Ordering::SeqCst);
        }
        // Fails if the thread was woken during the poll. The poll may itself have parked, and so consumed the unpark.
        let rests = unpark.state.compare_exchange(POLLING, RESTING, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if rests {
            if let Some(waiter) = &waiter {
                waiter.watch.rests();
            }
            park(rest);
        }
    }
}
