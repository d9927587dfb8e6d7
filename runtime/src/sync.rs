//! The one door to synchronisation: atomics, cells, locks, threads and the queues that several threads share.
//!
//! Every module that two threads meet in takes its primitives from here, so that a model checker can replace them: the
//! package `tests/models` compiles the same modules against its own `sync`, made of loom's types. There the deque and
//! the queues are stand-ins with the real ones' orderings (crossbeam's are not loom-aware); a stand-in behind a lock
//! would hide a lost wake-up, so whether a queue is empty is a plain atomic index there.

mod barrier;
#[cfg(feature = "chaos")]
mod chaos;
pub(crate) mod thread_kind;
#[cfg(test)]
pub(crate) mod window;

pub(crate) use barrier::{
    checked_light_barrier, heavy_barrier, is_light_barrier_enough, light_barrier, prepare as prepare_barriers,
};
#[cfg(feature = "chaos")]
pub(crate) use chaos::{AtomicPtr, fence};
#[cfg(feature = "test")]
pub(crate) use std::sync::Weak;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(feature = "chaos"))]
pub(crate) use std::sync::atomic::{AtomicPtr, fence};
pub(crate) use std::sync::mpsc::{SyncSender, sync_channel};
pub(crate) use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, Once, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    TryLockError,
};
pub(crate) use std::thread::{JoinHandle, Thread as ThreadHandle, current as current_thread, yield_now};

pub(crate) use crossbeam_deque::{Steal, Stealer, Worker as Deque};
pub(crate) use crossbeam_queue::SegQueue;
pub(crate) use crossbeam_utils::CachePadded;
pub(crate) use thread_kind::ThreadKind;

/// A cell whose owner is determined by a protocol (a token, a queue's end) that the compiler cannot see.
///
/// The closures delimit each access, so that a model checker sees overlapping ones.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct OwnedCell<T>(std::cell::UnsafeCell<T>);

impl<T> OwnedCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `change` with a pointer that is valid for reads and writes if the caller owns the cell by its protocol.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, change: impl FnOnce(*mut T) -> R) -> R {
        change(self.0.get())
    }
}

/// Locks `mutex`, even if a thread panicked while holding it: no lock here guards state that a panic can tear.
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

/// Starts a thread with that name. (The system's names end at a zero byte, and the standard library panics at one.)
pub(crate) fn spawn_thread(
    kind: ThreadKind,
    name: String,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    spawn_thread_with(kind, name, None, body)
}

/// Starts a thread with a stack of that many bytes.
pub(crate) fn spawn_thread_with(
    kind: ThreadKind,
    name: String,
    stack: Option<usize>,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    #[cfg(feature = "test")]
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

/// Parks the calling thread until [`unpark`], a time-out, or spuriously.
#[inline]
pub(crate) fn park(timeout: Option<std::time::Duration>) {
    #[cfg(feature = "test")]
    if let Some(simulator) = simulated::here() {
        return simulator.park(timeout);
    }
    disturb();
    match timeout {
        Some(timeout) => std::thread::park_timeout(timeout),
        None => std::thread::park(),
    }
}

/// Unparks `thread` from [`park`], or makes its next one return at once.
#[inline]
pub(crate) fn unpark(thread: &ThreadHandle) {
    #[cfg(feature = "test")]
    if let Some(simulator) = simulated::here() {
        return simulator.unpark(thread);
    }
    disturb();
    thread.unpark();
    disturb();
}

/// Pauses a spinning processor briefly, which benefits its sibling and its power budget.
pub(crate) fn spin() {
    std::hint::spin_loop();
}

/// A fence that only models need: loom treats sequentially consistent accesses as acquire and release only, and so
/// reports a race in code that rests on their total order.
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

/// Sleeps now and then, in a build with the feature `chaos`; nothing in any other.
#[inline(always)]
pub(crate) fn disturb() {
    #[cfg(feature = "chaos")]
    chaos::disturb();
}

/// Tells the simulator, if there is one, that the turn changes what any other may look at.
pub(crate) fn touch_everything() {
    #[cfg(feature = "test")]
    if let Some(simulator) = simulated::here() {
        simulator.touch_everything();
    }
}

/// What stands in for the machine on the threads of a simulation (see `simulation`).
#[cfg(feature = "test")]
pub(crate) mod simulated {
    use super::{Arc, ThreadHandle};
    use std::any::{Any, TypeId};
    use std::cell::{Cell, RefCell};
    use std::time::{Duration, Instant};

    /// Why no thread is started.
    pub(super) const NO_THREADS: &str = "a simulation has no threads of the system: run this part outside of it, or \
        put it behind a process that the test replaces";

    /// What a test may ask to go wrong.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Mishap {
        /// A process panics before a time slice.
        Crash,
        /// A process that is ready is not run for a while.
        Slow,
        /// The mailbox of a process seems to be full.
        Full,
        /// A process does not start.
        Start,
        /// A command fails.
        FailedCommand,
        /// A command is handled late.
        LateCommand,
    }

    /// Decides when the threads of a simulation go on, and what time it is there.
    pub(crate) trait Simulator: Any + Send + Sync {
        /// Lets others run until the calling thread is unparked, or `timeout` has passed.
        fn park(&self, timeout: Option<Duration>);

        /// Unparks a thread of the simulation, or any other.
        fn unpark(&self, thread: &ThreadHandle);

        /// Lets others run until nothing can without time passing.
        fn wait_until_idle(&self);

        fn now(&self) -> Instant;

        /// Returns whether the calling thread is the test's, rather than one that runs processes.
        fn is_test(&self) -> bool;

        /// Notes that the test lets time pass, or waits until nothing can go on without.
        fn begins_to_wait(&self);

        /// Notes that a timer has fired. Returns false if too many have, in vain: no further one may.
        fn fired(&self) -> bool;

        /// Returns whether that goes wrong now with that type of process or command, and for how long.
        fn mishap(&self, mishap: Mishap, of: TypeId) -> Option<Duration>;

        /// Notes that the turn has changed something that others may look at: names, groups.
        fn touch_everything(&self);

        /// Takes the index of a free slot, in an order that is the same in each run.
        fn take_slot(&self) -> Option<u32>;

        fn return_slot(&self, index: u32);

        /// Notes that a message of that type is delivered to the running process.
        fn delivered(&self, message: &'static str);

        /// Notes that something is sent to the process in that slot.
        fn sent(&self, slot: u32);
    }

    thread_local! {
        static HERE: RefCell<Option<Arc<dyn Simulator>>> = const { RefCell::new(None) };
        static FULL: Cell<bool> = const { Cell::new(false) };
    }

    /// Returns the simulator that the calling thread belongs to.
    pub(crate) fn here() -> Option<Arc<dyn Simulator>> {
        HERE.try_with(|here| here.borrow().clone()).ok().flatten()
    }

    pub(crate) fn is_here() -> bool {
        HERE.try_with(|here| here.borrow().is_some()).unwrap_or(false)
    }

    /// Returns whether that goes wrong now, if there is a simulator.
    pub(crate) fn mishap(mishap: Mishap, of: TypeId) -> Option<Duration> {
        here()?.mishap(mishap, of)
    }

    /// Runs `send` to a mailbox that seems to be full.
    pub(crate) fn while_full<R>(send: impl FnOnce() -> R) -> R {
        FULL.set(true);
        let sent = send();
        FULL.set(false);
        sent
    }

    /// Returns whether the mailbox that the calling thread sends to seems to be full.
    pub(crate) fn is_full() -> bool {
        FULL.get()
    }

    /// Runs `body` as if the calling thread belonged to no simulation.
    pub(crate) fn outside<R>(body: impl FnOnce() -> R) -> R {
        struct ComesBack(Option<Arc<dyn Simulator>>);
        impl Drop for ComesBack {
            fn drop(&mut self) {
                enter(self.0.take());
            }
        }
        let _outside = ComesBack(enter(None));
        body()
    }

    /// Makes the calling thread belong to that simulation, or to none. Returns the previous one.
    pub(crate) fn enter(simulator: Option<Arc<dyn Simulator>>) -> Option<Arc<dyn Simulator>> {
        HERE.replace(simulator)
    }
}
