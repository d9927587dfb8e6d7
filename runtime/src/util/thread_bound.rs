//! A value that only the thread that made it may use, even after it has been moved. It is for processes whose state is
//! not `Send`.
//!
//! The value may be moved, and so may its owner: moving bytes does not use the value. Every access, and the drop,
//! checks that it happens on the original thread. So the scheduler can store such a state like any other, and a mistake
//! of the scheduler causes at most a panic or a leak. For correctness, the scheduler keeps each state on its thread
//! (see `engine/pinned`). Soundness depends on this file alone.

use std::cell::Cell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Returns a number that identifies the calling thread among all that ever existed.
pub(crate) fn this_thread() -> u64 {
    // This does not use `std::thread::current`, which may be inaccessible in the destructors of thread-locals.
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    static LAST: AtomicU64 = AtomicU64::new(0);
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        number.get()
    })
}

/// A value, and the thread that made it.
pub(crate) struct Anchored<T> {
    thread: u64,
    value: ManuallyDrop<T>,
}

// SAFETY: the value is reached only through `get`, `get_mut`, `poll` and `drop`. Each compares the calling thread with
// the one that made the value, using a number that is unique in the program; so the value is used and dropped on that
// thread only, as required for a type that is not `Send`.
unsafe impl<T> Send for Anchored<T> {}

impl<T> Anchored<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { thread: this_thread(), value: ManuallyDrop::new(value) }
    }

    /// # Panics
    /// If called on another thread.
    pub(crate) fn get(&self) -> &T {
        self.check();
        &self.value
    }

    /// # Panics
    /// If called on another thread.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.check();
        &mut self.value
    }

    fn check(&self) {
        assert!(self.is_on_its_thread(), "a `{}` is used on another thread than its own", std::any::type_name::<T>());
    }

    fn is_on_its_thread(&self) -> bool {
        self.thread == this_thread()
    }
}

impl<T> Drop for Anchored<T> {
    fn drop(&mut self) {
        if self.is_on_its_thread() {
            // SAFETY: the value is dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        } else {
            let what = std::any::type_name::<T>();
            crate::util::log::error!(what, "a value that belongs to one thread was dropped on another, and is leaked");
        }
    }
}

/// Requires a future that is pinned elsewhere, usually in a box: if it is leaked, it keeps its memory. (A future stored
/// inline would lose its memory without being dropped, which is not allowed for a pinned value.)
impl<F: Future + Unpin> Future for Anchored<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        Pin::new(Self::get_mut(&mut self)).poll(context)
    }
}

/// The value is not pinned together with its owner.
impl<T> Unpin for Anchored<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use std::thread;

    #[test]
    fn it_travels_and_comes_back() {
        let anchored = Anchored::new(Rc::new(7));
        let back = thread::spawn(move || anchored).join();
        assert_eq!(back.ok().map(|anchored| **anchored.get()), Some(7));
    }

    #[test]
    fn another_thread_can_not_look_at_it() {
        let mut anchored = Anchored::new(Rc::new(7));
        let outcome = thread::spawn(move || {
            let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| **anchored.get_mut()));
            (looked.is_err(), anchored)
        });
        let (refused, anchored) = outcome.join().unwrap_or_else(|_| unreachable!("the panic was caught"));
        assert!(refused);
        assert_eq!(**anchored.get(), 7);
    }

    #[test]
    fn another_thread_does_not_drop_it() {
        let value = Rc::new(());
        let anchored = Anchored::new(value.clone());
        thread::spawn(move || drop(anchored)).join().unwrap_or_else(|_| unreachable!("a leak is no panic"));
        assert_eq!(Rc::strong_count(&value), 2);
    }

    #[test]
    fn a_future_that_is_leaked_keeps_its_place() {
        let value = Rc::new(());
        let place = Rc::new(Cell::new(std::ptr::null::<Rc<()>>()));
        let seen = place.clone();
        let mut future: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(Anchored::new(Box::pin(async move {
            let held = value;
            seen.set(std::ptr::from_ref(&held));
            std::future::pending::<()>().await;
            drop(held);
        })));
        assert!(future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
        thread::spawn(move || drop(future)).join().unwrap_or_else(|_| unreachable!("a leak is no panic"));
        // SAFETY: the future was leaked, so its memory was not freed, and the value that it holds is still there.
        assert_eq!(Rc::strong_count(unsafe { &*place.get() }), 1);
    }

    #[test]
    fn its_own_thread_drops_it_once() {
        let value = Rc::new(());
        let anchored = Anchored::new(value.clone());
        drop(anchored);
        assert_eq!(Rc::strong_count(&value), 1);
    }
}
