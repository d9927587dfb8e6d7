//! Driving a host's reactor on its own threads, so that events of the system need no thread in between.
//!
//! * D1 The poller (the sleeper that waits for timers) parks in the reactor instead of on its own. A host with a
//!   reactor has a poller whenever any thread sleeps.
//! * D2 A process that the reactor, or one of its tasks, wakes there is queued where the permit of the poller looks,
//!   and no thread is called for it. D3 When the reactor has delivered all events of the system, or is about to wait
//!   although something is queued, the poller does sleep:S3, with the fence before it: it finds the work, leaves the
//!   list and runs it, and calls other threads if there is enough for several (sleep:F3).
//! * D4 A thread that runs processes polls the reactor every so many steps, without waiting. D5 If that has queued any
//!   processes, it announces them (sleep:P2 to sleep:P5), once for all.
//! * D6 Tasks of the reactor are foreign code, which may take long. So they run in these visits (D4) only, in which the
//!   thread has a permit, does not search, and can lose its permit to another thread as in a step (`visiting`). While
//!   there are tasks, a thread that has found no work visits the reactor before it parks, and a poller that the reactor
//!   has released leaves the list.
//! * D7 The thread that holds the reactor's lock drives it; the lock is only ever tried. A thread that does not get it
//!   continues or, as the poller, parks on its own for [`RETRY`]. If all threads are in long steps, a thread of the
//!   reactor's own drives it, called by the watchdog.
//!
//! *No work is missed* (see `sleep`): D2 omits sleep:P2 to sleep:P5. The poller does sleep:S3 after it, so the work
//! counts as queued before the thread parked: the poller leaves the list for it, or another thread searches, and looks
//! at the queues after that. If a thread has taken the poller off the list meanwhile, the poller searches.
//!
//! *No call is missed*: a thread that calls the poller notes that under the lock that also guards the waker of the wait
//! ([`Worker::unpark`](crate::engine::workers::worker::Worker::unpark)). The wait stores its waker there and then
//! checks the note under the same lock: it finds the note, or the caller finds the waker, and wakes the reactor.
//!
//! A task that becomes ready after the visit of D6 (it has yielded there, or a thread woke it since) runs in the wait,
//! on a thread that counts as asleep; if it takes long, one permit is idle meanwhile. Calls and D2 take effect after
//! some dozens of tasks at most.

use crate::engine::context::thread::ThreadContext;
use crate::engine::host::Scheduler;
use crate::engine::io::reactor::Driver;
use crate::engine::workers::worker::Worker;
use crate::sync::{Ordering, fence, park};
use crate::util::defer::defer;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::task::Waker;
use std::time::Duration;

/// The precision of a reactor's waits: Tokio's are whole milliseconds, as are those of the system call beneath. A
/// poller with an earlier timer parks on its own, so that the timer is exact, and events of the system wait for it.
const EXACT: Duration = Duration::from_millis(2);

/// How long a poller that did not get the lock parks before it retries.
const RETRY: Duration = Duration::from_millis(1);

thread_local! {
    /// The host whose reactor this thread is driving.
    static DRIVES: Cell<*const Scheduler> = const { Cell::new(ptr::null()) };
    /// Whether that has queued processes of the host.
    static QUEUED: Cell<bool> = const { Cell::new(false) };
    /// The waker that ends its wait there.
    static WAITS: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// D2: a process of `host` was queued. Returns whether this thread drives that host's reactor and so takes care of it.
#[inline]
pub(crate) fn is_seen_to(host: &Scheduler) -> bool {
    let drives = ptr::eq(DRIVES.get(), host);
    if drives && !QUEUED.replace(true) {
        // A wait must end before it blocks.
        let _gone = WAITS.try_with(|waits| waits.borrow().as_ref().map(Waker::wake_by_ref));
    }
    drives
}

/// Stores the waker that ends the wait of `thread`, which is this one. Returns whether it must end at once.
fn rests_with(thread: &Worker, waker: &Waker) -> bool {
    WAITS.with_borrow_mut(|waits| {
        if !waits.as_ref().is_some_and(|own| own.will_wake(waker)) {
            *waits = Some(waker.clone());
        }
    });
    thread.rests_with(waker)
}

/// Returns whether the calling thread waits in the reactor, rather than visit it.
#[cfg(all(test, feature = "tokio"))]
pub(crate) fn waits_here() -> bool {
    WAITS.with_borrow(Option::is_some)
}

impl ThreadContext {
    /// D1 and D3: sleep:S4 of the poller.
    pub(crate) fn park_as_poller(&self, patience: Option<Duration>) {
        let Some(driver) = self.user.driver().filter(|_| patience.is_none_or(|patience| patience > EXACT)) else {
            return park(patience);
        };
        let thread = self.thread;
        let mut waited = false;
        let wait = || {
            let patience = patience.map(|patience| patience - EXACT);
            waited = driver.wait(patience, &mut |waker| QUEUED.get() || rests_with(thread, waker));
        };
        if self.drive(|| thread.wait_in_reactor(wait)) && self.host.is_stopped() {
            // shutdown:L3: no sleep:S3 follows any more.
            self.host.announce();
        }
        thread.rests_no_more();
        WAITS.set(None);
        if !waited {
            park(Some(patience.map_or(RETRY, |patience| patience.min(RETRY))));
        } else if driver.has_tasks() {
            // If it has lost its permit, the next poller looks.
            let _is_up = self.host.idle.end_sleep(self.index);
        }
    }

    /// D4 and D5.
    #[inline]
    pub(crate) fn visit_reactor(&self) {
        if self.host.has_driver
            && let Some(driver) = self.user.driver()
        {
            self.visit(driver);
        }
    }

    #[cold]
    fn visit(&self, driver: &dyn Driver) {
        let queued = self.thread.visit(|| self.drive(|| driver.visit()));
        if queued {
            self.host.announce();
        }
    }

    /// Returns whether there are tasks to run before this thread parks.
    pub(crate) fn has_tasks(&self) -> bool {
        self.host.has_driver && self.user.driver().is_some_and(|driver| driver.has_tasks())
    }

    /// Runs `body`, which drives the reactor, as outside code. Returns whether it has queued processes of the host.
    fn drive(&self, body: impl FnOnce()) -> bool {
        self.without_context(|| {
            DRIVES.set(self.host);
            let _outside = defer(|| DRIVES.set(ptr::null()));
            body();
        });
        crate::env::clock::forget_now();
        fence(Ordering::SeqCst);
        QUEUED.take()
    }
}

impl Scheduler {
    /// D7: called by the watchdog at each of its ticks.
    pub(crate) fn tend_reactor(&self) {
        if self.has_driver
            && let Some(user) = self.user()
            && let Some(driver) = user.driver()
        {
            driver.tend();
        }
    }

    /// Returns whether the calling thread drives the host's reactor, and must not wait for what only that can bring.
    pub(crate) fn is_reactor_here(&self) -> bool {
        ptr::eq(DRIVES.get(), self)
            || self.has_driver
                && self.user().is_some_and(|user| user.driver().is_some_and(|driver| driver.is_fallback()))
    }
}
