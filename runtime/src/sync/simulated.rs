//! The replacement for the operating system on the threads of a simulation (see `simulation`). All other code reaches
//! locks and threads through `sync`, which asks this module first. So this module imports nothing from `sync`.
//!
//! This is the only seam for simulations. Without the feature `test` no thread belongs to a simulation, and the
//! compiler removes the code that depends on one.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::thread::Thread as ThreadHandle;
use std::time::{Duration, Instant};

/// Whether this build supports simulations, and with them nodes other than the program's own.
pub(crate) const ARE_BUILT: bool = cfg!(feature = "test");

/// The reason why no thread is started.
pub(super) const NO_THREADS: &str = "a simulation has no threads of the system: run this part outside of it, or \
    put it behind a process that the test replaces";

/// A fault that a test may inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// A process panics before a time slice.
    #[cfg(feature = "test")]
    Crash,
    /// A process that is ready does not run for a while.
    #[cfg(feature = "test")]
    Slow,
    /// The mailbox of a process appears to be full.
    Full,
    /// A process does not start.
    Start,
    /// A command fails.
    FailedCommand,
    /// A command is handled late.
    LateCommand,
}

/// Decides when the threads of a simulation continue, and what time it is in the simulation.
pub(crate) trait Simulator: Any + Send + Sync {
    /// Lets other threads run until the calling thread is unparked, or `timeout` has passed.
    fn park(&self, timeout: Option<Duration>);

    /// Unparks a thread of the simulation, or any other.
    fn unpark(&self, thread: &ThreadHandle);

    /// Lets other threads run until none can continue without time passing.
    fn wait_until_idle(&self);

    fn now(&self) -> Instant;

    /// Returns whether the calling thread is the test's, rather than one that runs processes.
    fn is_test(&self) -> bool;

    /// Records that the test lets time pass, or waits until nothing can continue without time passing.
    fn begins_to_wait(&self);

    /// Records that a timer has fired. Returns false if too many have fired in vain, in which case no further timer may
    /// fire.
    fn fired(&self) -> bool;

    /// Returns how long the fault lasts, if it occurs now for a process or command of type `of`.
    fn mishap(&self, mishap: Mishap, of: TypeId) -> Option<Duration>;

    /// Records that the current turn has changed something that other turns may read, such as names and groups.
    fn touch_everything(&self);

    /// Takes the index of a free slot, in the same order in each run.
    fn take_slot(&self) -> Option<u32>;

    fn return_slot(&self, index: u32);

    /// Records that a message of the type named `message` is delivered to the running process.
    fn delivered(&self, message: &'static str);

    /// Records that something is sent to the process in the slot with index `slot`.
    fn sent(&self, slot: u32);
}

thread_local! {
    static HERE: RefCell<Option<Arc<dyn Simulator>>> = const { RefCell::new(None) };
    static FULL: Cell<bool> = const { Cell::new(false) };
}

/// Returns the simulator that the calling thread belongs to.
#[inline(always)]
pub(crate) fn here() -> Option<Arc<dyn Simulator>> {
    if ARE_BUILT { HERE.try_with(|here| here.borrow().clone()).ok().flatten() } else { None }
}

#[inline(always)]
pub(crate) fn is_here() -> bool {
    ARE_BUILT && HERE.try_with(|here| here.borrow().is_some()).unwrap_or(false)
}

/// Tells the simulator, if there is one, that something is sent to the process in the slot with index `slot`.
#[inline(always)]
pub(crate) fn note_sent(slot: u32) {
    if let Some(simulator) = here() {
        simulator.sent(slot);
    }
}

/// Returns how long the fault lasts, if there is a simulator and the fault occurs now.
#[inline(always)]
pub(crate) fn mishap(mishap: Mishap, of: TypeId) -> Option<Duration> {
    here()?.mishap(mishap, of)
}

/// Runs `send`, to which the mailbox appears to be full.
pub(crate) fn while_full<R>(send: impl FnOnce() -> R) -> R {
    FULL.set(true);
    let sent = send();
    FULL.set(false);
    sent
}

/// Returns whether the mailbox that the calling thread sends to must appear to be full.
pub(crate) fn is_full() -> bool {
    ARE_BUILT && FULL.get()
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

/// Makes the calling thread belong to the given simulation, or to none. Returns the previous one.
pub(crate) fn enter(simulator: Option<Arc<dyn Simulator>>) -> Option<Arc<dyn Simulator>> {
    HERE.replace(simulator)
}
