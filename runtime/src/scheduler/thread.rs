//! A thread runs the steps of processes while it holds a worker.
//!
//! Here is what all may see of it: the slot for the process to run next, the far end of its deque, what it runs. What is
//! its own is in `local`.
//!
//! # The deque
//!
//! `crossbeam-deque`'s Chase-Lev deque, last in first out for its owner. Thieves take up to half of it, oldest first:
//! `steal_batch_with_limit_and_pop` takes the items of such a deque *one by one*, with a compare-and-swap and a fence for
//! each, and gives up where it meets another thief or the owner; so an item is taken once whatever the owner does, and
//! half a long deque is not had for one operation. (Taking half with one compare-and-swap from a deque whose owner pops
//! without one runs items twice: this is what the first-in-first-out flavour's owner pays its own compare-and-swap for.)
//! The plain `steal_batch_and_pop` never takes more than 32.
//!
//! The deque is unbounded, where Go's local queue holds 256 and spills half to the global queue: a worker that wakes
//! 100,000 processes pays amortised growth instead of a shared queue, and thieves balance the load. What bounds it is the
//! number of processes: each is queued at most once.
//!
//! A first-in-first-out deque was measured on the prototype of this design: equal elsewhere, but three times slower where
//! many processes talk to random others (80 ns against 26), since thieves then take what the owner needs next.

use crate::process::turn::Turn;
use crate::sync::{
    AtomicPtr, AtomicUsize, Deque, Mutex, Ordering, Stealer, ThreadHandle, current_thread, lock, unpark,
};
use crate::table::{Slot, Token};
use std::ptr::{self, NonNull};

/// What all may see of a thread.
pub(crate) struct Thread {
    /// The process to run next, woken by the one that ran last. Anyone may take it by an exchange.
    run_next: AtomicPtr<Slot>,
    pub(crate) stealer: Stealer<Token>,
    /// What it runs now, or null.
    pub(crate) running: AtomicPtr<Slot>,
    /// What is left of its turn, and what that is at.
    pub(crate) turn: Turn,
    /// The worker it holds.
    pub(crate) worker: AtomicUsize,
    /// For waking it: who runs processes here now.
    handle: Mutex<Option<ThreadHandle>>,
}

impl Thread {
    /// A thread to be, and the near end of its deque.
    pub(crate) fn new() -> (Self, Deque<Token>) {
        let deque = Deque::new_lifo();
        let thread = Self {
            run_next: AtomicPtr::new(ptr::null_mut()),
            stealer: deque.stealer(),
            running: AtomicPtr::new(ptr::null_mut()),
            turn: Turn::new(),
            worker: AtomicUsize::new(usize::MAX),
            handle: Mutex::new(None),
        };
        (thread, deque)
    }

    /// Puts `token` into the run-next slot; gives the one that it displaces.
    #[inline]
    pub(crate) fn swap_run_next(&self, token: Token) -> Option<Token> {
        let before = self.run_next.swap(token.into_raw(), Ordering::AcqRel);
        // SAFETY: what is in the slot came from `into_raw`, and the exchange takes it out once.
        NonNull::new(before).map(|slot| unsafe { Token::from_raw(slot) })
    }

    #[inline]
    pub(crate) fn has_run_next(&self) -> bool {
        !self.run_next.load(Ordering::Relaxed).is_null()
    }

    /// Takes the process to run next.
    #[inline]
    pub(crate) fn take_run_next(&self) -> Option<Token> {
        if !self.has_run_next() {
            return None;
        }
        let taken = self.run_next.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: as in `swap_run_next`.
        NonNull::new(taken).map(|slot| unsafe { Token::from_raw(slot) })
    }

    /// The process that it runs now.
    pub(crate) fn running(&self) -> Option<&'static Slot> {
        // SAFETY: only addresses of slots are stored, and slots are never freed.
        unsafe { self.running.load(Ordering::Relaxed).as_ref() }
    }

    /// Says that the calling thread runs processes here from now on.
    pub(crate) fn occupy(&self) {
        *lock(&self.handle) = Some(current_thread());
    }

    pub(crate) fn unpark(&self) {
        if let Some(handle) = &*lock(&self.handle) {
            unpark(handle);
        }
    }
}
