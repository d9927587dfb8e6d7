//! Driving a host's reactor on the host's own threads, so that events of the system need no thread in between.
//!
//! * D1 The poller (the sleeper that waits for timers) parks in the reactor instead of on its own. A host with a
//!   reactor has a poller whenever any thread sleeps.
//! * D2 A process that is woken by the reactor, or by one of its tasks, on the thread that drives the reactor is queued
//!   like any process woken from outside, but no thread is woken for it. D3 When the reactor has delivered all events
//!   of the system, or is about to wait although something is queued, the poller does sleep:S3, with the fence before
//!   it: it finds the work, leaves the list and runs it, and wakes other threads if there is enough for several
//!   (sleep:F3).
//! * D4 A thread that runs processes polls the reactor regularly between steps, without waiting. D5 If this has queued
//!   any processes, the thread announces all of them at once (sleep:P2 to sleep:P5).
//! * D6 Tasks of the reactor are foreign code, and may take a long time. So, with one exception (below), they run only
//!   in these visits (D4): the thread then has a permit, does not search, and can lose its permit to another thread as
//!   in a step (`visiting`). While there are tasks, a thread that has found no work visits the reactor before it parks,
//!   and a poller leaves the list when its wait in the reactor has ended.
//! * D7 The thread that holds the reactor's lock drives it; the host's threads only ever try to take that lock. A
//!   thread that does not get it continues or, as the poller, parks on its own for [`RETRY`]. If all threads are in
//!   long steps, the watchdog has a thread of the reactor's own drive it.
//!
//! *No work is missed* (see `sleep`): D2 omits sleep:P2 to sleep:P5. The poller does sleep:S3 afterwards, so the work
//! counts as queued before it parked: the poller leaves the list for it, or another thread is searching, and will look
//! at the queues after that. If a thread has taken the poller off the list in the meantime, the poller searches.
//!
//! *No call is missed*: a thread that calls the poller records that under the lock that also guards the waker of the
//! wait ([`Worker::unpark`](crate::engine::workers::worker::Worker::unpark)). The wait stores its waker, and then
//! checks for a call, under the same lock: either the wait finds the call, or the caller finds the waker and wakes the
//! reactor.
//!
//! The exception is a task that becomes ready after the visit of D6 (because it yielded during that visit, or a thread
//! has woken it since). It runs in the wait, on a thread that counts as asleep; if the task takes a long time, one
//! permit is idle for as long. Calls and D2 take effect after a few dozen tasks at most.

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

/// The precision of a reactor's waits: Tokio waits for whole milliseconds, as does the underlying system call. If a
/// timer is due sooner, the poller parks on its own: then the timer is exact, and events of the system wait until it is
/// due.
const EXACT: Duration = Duration::from_millis(2);

/// How long a poller that did not get the reactor's lock parks before it retries.
const RETRY: Duration = Duration::from_millis(1);

thread_local! {
    /// The host whose reactor this thread is driving.
    static DRIVES: Cell<*const Scheduler> = const { Cell::new(ptr::null()) };
    /// Whether driving that reactor has queued processes of the host.
    static QUEUED: Cell<bool> = const { Cell::new(false) };
    /// The waker that ends this thread's wait in the reactor.
    static WAITS: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// Performs D2 for a queued process of `host`. Returns true if this thread drives that host's reactor: it will then
/// take care of the process.
#[inline]
pub(crate) fn is_seen_to(host: &Scheduler) -> bool {
    let drives = ptr::eq(DRIVES.get(), host);
    if drives && !QUEUED.replace(true) {
        // Ends the wait in the reactor before it blocks.
        let _gone = WAITS.try_with(|waits| waits.borrow().as_ref().map(Waker::wake_by_ref));
    }
    drives
}

/// Stores the waker that ends the wait of `thread`, the calling thread. Returns whether the wait must end at once.
fn rests_with(thread: &Worker, waker: &Waker) -> bool {
    WAITS.with_borrow_mut(|waits| {
        if !waits.as_ref().is_some_and(|own| own.will_wake(waker)) {
            *waits = Some(waker.clone());
        }
    });
    thread.rests_with(waker)
}

/// Returns whether the calling thread is in a wait in the reactor, rather than in a visit.
#[cfg(all(test, feature = "tokio"))]
pub(crate) fn waits_here() -> bool {
    WAITS.with_borrow(Option::is_some)
}

impl ThreadContext {
    /// Performs D1 and D3, the poller's sleep:S4.
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
            // This is shutdown:L3, since no sleep:S3 follows on a stopped host.
            self.host.announce();
        }
        thread.rests_no_more();
        WAITS.set(None);
        if !waited {
            park(Some(patience.map_or(RETRY, |patience| patience.min(RETRY))));
        } else if driver.has_tasks() {
            // If this thread has lost its permit, the next poller looks at the tasks.
            let _is_up = self.host.idle.end_sleep(self.index);
        }
    }

    /// Performs D4 and D5.
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

    /// Runs `body`, which drives the reactor, outside of the context. Returns whether it has queued processes of the
    /// host.
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
    /// Performs D7. Called by the watchdog at each tick.
    pub(crate) fn tend_reactor(&self) {
        if self.has_driver
            && let Some(user) = self.user()
            && let Some(driver) = user.driver()
        {
            driver.tend();
        }
    }

    /// Returns whether the calling thread drives the host's reactor, and so must not wait for events that only the
    /// reactor can deliver.
    pub(crate) fn is_reactor_here(&self) -> bool {
        ptr::eq(DRIVES.get(), self)
            || self.has_driver
                && self.user().is_some_and(|user| user.driver().is_some_and(|driver| driver.is_fallback()))
    }
}
