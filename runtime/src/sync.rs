//! The single source of synchronization primitives: atomics, cells, locks, threads, and shared queues.
//!
//! Every module in which threads interact takes its primitives from here, so that a model checker can replace them: the
//! package `tests/models` compiles the same modules against its own `sync`, which is made of loom's types. In that
//! `sync`, the deque and the queues are stand-ins, since crossbeam's are not loom-aware. Where a lock would hide a lost
//! wake-up, a stand-in has the orderings of the real queue, and a plain atomic index tells whether it is empty.

mod barrier;
#[cfg(feature = "chaos")]
mod chaos;
pub(crate) mod simulated;
pub(crate) mod thread_kind;
#[cfg(test)]
pub(crate) mod window;

pub(crate) use barrier::{
    checked_light_barrier, heavy_barrier, is_light_barrier_enough, light_barrier, prepare as prepare_barriers,
};
#[cfg(feature = "chaos")]
pub(crate) use chaos::{AtomicPtr, fence};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(feature = "chaos"))]
pub(crate) use std::sync::atomic::{AtomicPtr, fence};
pub(crate) use std::sync::mpsc::{SyncSender, sync_channel};
pub(crate) use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, Once, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    TryLockError, Weak,
};
pub(crate) use std::thread::{JoinHandle, Thread as ThreadHandle, current as current_thread, yield_now};

pub(crate) use crossbeam_deque::{Steal, Stealer, Worker as Deque};
pub(crate) use crossbeam_queue::SegQueue;
pub(crate) use crossbeam_utils::CachePadded;
pub(crate) use thread_kind::ThreadKind;

/// A cell whose owner is determined by a protocol that the compiler cannot see, such as a token or the end of a queue.
///
/// The closures delimit each access, so that a model checker detects overlapping accesses.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct OwnedCell<T>(std::cell::UnsafeCell<T>);

impl<T> OwnedCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `change` with a pointer that is valid for reads and writes, provided that the caller owns the cell by its
    /// protocol.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
        change(self.0.get())
    }
}

/// Locks `mutex`, even if a thread panicked while holding it. No lock of this crate guards state that a panic can leave
/// inconsistent.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    disturb();
    let guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    disturb();
    guard
}

pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    disturb();
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(torn)) => Some(torn.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Starts a thread named `name`. (A zero byte in the name becomes a space, because the system would end the name at
/// that byte, and the standard library panics if there is one.)
pub(crate) fn spawn_thread(
    kind: ThreadKind,
    name: String,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    spawn_thread_with(kind, name, None, body)
}

/// Starts a thread with a stack of `stack` bytes, or of the default size.
pub(crate) fn spawn_thread_with(
    kind: ThreadKind,
    name: String,
    stack: Option<usize>,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    if simulated::is_here() {
        return Err(std::io::Error::other(simulated::NO_THREADS));
    }
    let body = move || {
        kind.enter();
        disturb();
        body();
    };
    let thread = std::thread::Builder::new().name(name.replace('\0', " "));
    match stack {
        Some(bytes) => thread.stack_size(bytes).spawn(body),
        None => thread.spawn(body),
    }
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Parks the calling thread until [`unpark`] or the timeout; it may also return spuriously.
#[inline]
pub(crate) fn park(timeout: Option<std::time::Duration>) {
    if let Some(simulator) = simulated::here() {
        return simulator.park(timeout);
    }
    disturb();
    match timeout {
        Some(timeout) => std::thread::park_timeout(timeout),
        None => std::thread::park(),
    }
}

/// Unparks `thread` from [`park`], or makes its next call of `park` return at once.
#[inline]
pub(crate) fn unpark(thread: &ThreadHandle) {
    if let Some(simulator) = simulated::here() {
        return simulator.unpark(thread);
    }
    disturb();
    thread.unpark();
    disturb();
}

/// Pauses a spinning processor briefly, which benefits its sibling hyperthread and the power budget.
pub(crate) fn spin() {
    std::hint::spin_loop();
}

/// A fence that only models need: loom treats sequentially consistent accesses as acquire and release only, and would
/// report a race in code that relies on their total order.
#[inline(always)]
pub(crate) fn fence_for_models() {}

/// Waits on `condition`, even if a thread panicked while holding the lock.
pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    disturb();
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn wait_for<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: std::time::Duration,
) -> MutexGuard<'a, T> {
    disturb();
    condition.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
}

/// Sleeps occasionally in a build with the feature `chaos`; does nothing in any other.
#[inline(always)]
pub(crate) fn disturb() {
    #[cfg(feature = "chaos")]
    chaos::disturb();
}

/// Tells the simulator, if there is one, that this turn changes state that any other turn may read.
pub(crate) fn touch_everything() {
    if let Some(simulator) = simulated::here() {
        simulator.touch_everything();
    }
}
