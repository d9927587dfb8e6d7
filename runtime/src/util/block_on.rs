//! Runs a future on the calling thread, which parks while the future is pending.

use crate::env::clock::instant_now;
use crate::sync::{Arc, AtomicU8, AtomicU64, Mutex, Ordering, ThreadHandle, current_thread, lock, park, unpark};
use crate::util::defer::defer;
use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

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
    pub(crate) fn new(watch: &'static dyn RestWatcher) -> Self {
        Self { innermost: Mutex::new(None), rests: AtomicU64::new(0), watch }
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
    static WAITER: Cell<Option<&'static Waiter>> = const { Cell::new(None) };
}

/// Makes other threads observe the calling thread as `waiter`. Returns its previous one.
pub(crate) fn be_seen_as(waiter: Option<&'static Waiter>) -> Option<&'static Waiter> {
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
    let waiter = WAITER.try_with(Cell::get).ok().flatten();
    let mut outer = waiter.and_then(|waiter| lock(&waiter.innermost).replace(unpark.clone()));
    // Restores the waker of the enclosing `block_on`.
    let _inside = defer(|| {
        if let Some(waiter) = waiter {
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
        if let Some(waiter) = waiter {
            waiter.rests.fetch_add(1, Ordering::SeqCst);
        }
        // Fails if the thread was woken during the poll. The poll may itself have parked, and so consumed the unpark.
        let rests = unpark.state.compare_exchange(POLLING, RESTING, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if rests {
            if let Some(waiter) = waiter {
                waiter.watch.rests();
            }
            park(rest);
        }
    }
}
