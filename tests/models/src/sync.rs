//! A replacement for `runtime/src/sync.rs`, made of loom's types. Some of the planted faults take effect here.

#[path = "../../../runtime/src/sync/simulated.rs"]
pub(crate) mod simulated;

use crate::fault::{self, Fault};
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub(crate) use std::sync::atomic::Ordering;
pub(crate) use std::sync::{Arc, PoisonError};

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

/// An atomic pointer, on which most protocols depend, with the faults that can be planted in its operations.
pub(crate) struct AtomicPtr<T>(loom::sync::atomic::AtomicPtr<T>);

impl<T> std::fmt::Debug for AtomicPtr<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AtomicPtr")
    }
}

fn weakened(by: Fault, order: Ordering) -> Ordering {
    if fault::is(by) { Ordering::Relaxed } else { order }
}

impl<T> AtomicPtr<T> {
    #[track_caller]
    pub(crate) fn new(value: *mut T) -> Self {
        Self(loom::sync::atomic::AtomicPtr::new(value))
    }

    #[track_caller]
    pub(crate) fn load(&self, order: Ordering) -> *mut T {
        self.0.load(weakened(Fault::RelaxedLoad, order))
    }

    #[track_caller]
    pub(crate) fn store(&self, value: *mut T, order: Ordering) {
        self.0.store(value, weakened(Fault::RelaxedStore, order));
    }

    #[track_caller]
    pub(crate) fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        if fault::is(Fault::TornSwap) {
            let before = self.0.load(Ordering::Acquire);
            self.0.store(value, Ordering::Release);
            return before;
        }
        self.0.swap(value, weakened(Fault::RelaxedSwap, order))
    }

    #[track_caller]
    pub(crate) fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        if fault::is(Fault::TornCompare) {
            let found = self.0.load(Ordering::Acquire);
            if found == current {
                self.0.store(new, Ordering::Release);
                return Ok(found);
            }
            return Err(found);
        }
        self.0.compare_exchange(current, new, weakened(Fault::RelaxedCompare, success), failure)
    }

    #[track_caller]
    pub(crate) fn compare_exchange_weak(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        self.compare_exchange(current, new, success, failure)
    }
}

/// A cell that reports a race if two accesses overlap or are not ordered.
#[derive(Debug)]
pub(crate) struct OwnedCell<T>(loom::cell::UnsafeCell<T>);

impl<T> OwnedCell<T> {
    #[track_caller]
    pub(crate) fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    #[track_caller]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        self.0.with(read)
    }

    #[track_caller]
    pub(crate) fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
        self.0.with_mut(change)
    }
}

/// A queue that hands over its elements. It uses a lock, which orders more than the real queue does. So it suits only
/// protocols that hand over nothing else through the queue.
pub(crate) struct SegQueue<T>(Mutex<std::collections::VecDeque<T>>);

impl<T> SegQueue<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(std::collections::VecDeque::new()))
    }

    pub(crate) fn push(&self, value: T) {
        lock(&self.0).push_back(value);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        lock(&self.0).pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

/// A value without padding, which the models do not need.
#[derive(Debug)]
pub(crate) struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> std::ops::Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Does nothing: in a model, no other thread runs during a spin.
pub(crate) fn spin() {}

/// Yields. Production code calls it when it vacates a slot and finds an envelope that is not linked yet, and when a
/// thread waits for another one that is taking its tokens.
pub(crate) fn yield_now() {
    crate::check::reach("yielded");
    loom::thread::yield_now();
}

/// Waits for a notification, ignoring the timeout: models have no time.
pub(crate) fn wait_for<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    _timeout: std::time::Duration,
) -> MutexGuard<'a, T> {
    wait(condition, guard)
}

pub(crate) fn fence(order: Ordering) {
    if !fault::is(Fault::NoFence) {
        loom::sync::atomic::fence(order);
    }
}

/// Does nothing: loom tries all orders anyway.
pub(crate) fn disturb() {}

/// Executes a fence, since loom has no threads that could be interrupted.
pub(crate) fn light_barrier() {
    if !fault::is(Fault::NoLightBarrier) {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}

pub(crate) fn heavy_barrier() {
    if !fault::is(Fault::NoHeavyBarrier) {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}

pub(crate) fn is_light_barrier_enough() -> bool {
    true
}

pub(crate) fn checked_light_barrier() {
    light_barrier();
}

/// Does nothing: models have no simulator.
pub(crate) fn touch_everything() {}

/// Restores the total order of sequentially consistent accesses, for code that relies on it. Loom does not provide that
/// order.
pub(crate) fn fence_for_models() {
    if !fault::is(Fault::NoSingleOrder) {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}
