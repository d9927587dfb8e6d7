//! How a thread rests: parked with a permit, or as a spare thread without one.
//!
//! Both states share the type [`Rest`], since a parked thread may lose its permit without being woken (handoff:B1), and
//! learns of the loss only when it wakes. A thread that has been spare for the configured time ends. While there are
//! more threads than permits, a thread with a permit parks no longer than that either, since it may have become spare
//! by the time it wakes.

use crate::engine::context::thread::ThreadContext;
use crate::engine::permits::handoff::RestOutcome;
use crate::engine::permits::sleep::BecameSpare;
use crate::engine::workers::pinned::PinnedThread;
use crate::env::clock::{Moment, forget_now, instant_now};
use crate::sync::park;
use std::time::{Duration, Instant};

/// How a thread parks, and how it continues.
pub(crate) enum Rest {
    /// Parks with a permit, or until it gets one.
    Permit(PermitRest),
    /// Parks the thread of a pinned process until there is something in its inbox.
    Inbox(&'static PinnedThread),
}

pub(crate) struct PermitRest {
    /// Whether the thread has yet to look at all queues once more (sleep:S3) or, while it is parked, whether it has a
    /// permit.
    looks_again: bool,
    is_poller: bool,
    /// The time at which the thread ends if it is still spare. `None` until it is spare; `Some(None)` if that time is
    /// too far away to be represented.
    expires: Option<Option<Instant>>,
    /// The longest time to park, if limited.
    patience: Option<Duration>,
}

impl Rest {
    /// Returns the longest time to park, if it is limited.
    pub(super) fn patience(&self) -> Option<Duration> {
        match self {
            Self::Permit(rest) => rest.patience,
            Self::Inbox(_) => None,
        }
    }
}

pub(crate) enum RestStep {
    /// The thread has a permit, and counts as searching.
    Up,
    Park(PermitRest),
    Ended,
}

impl ThreadContext {
    /// Performs sleep:S1 to sleep:S3.
    pub(super) fn sleep(&self, searched: bool) -> RestStep {
        let keeps_nothing = self.flush();
        self.thread.acknowledge();
        let timers = self.host.has_driver || self.host.next_timer() < Moment::NEVER;
        let result = self.host.idle.begin_sleep(self.index, searched, timers, keeps_nothing);
        self.thread.counters.parks.add(1);
        let is_poller = result.unwrap_or_else(|spare| {
            self.pass_on(spare);
            false
        });
        self.rest(true, is_poller)
    }

    /// Performs handoff:A1 to handoff:A4 on a thread that has been called. Returns how the thread rests if it has given
    /// its permit away.
    pub(super) fn yield_permit(&self) -> Option<RestStep> {
        self.thread.acknowledge();
        // Flush before giving up the permit, so that the processes are in a queue when all permits sleep.
        let spare = self.host.idle.yield_permit(self.index, self.flush())?;
        self.pass_on(spare);
        self.host.leave_behind(self.index, self.thread);
        self.host.announce();
        Some(self.rest(false, false))
    }

    /// Wakes the thread that got this thread's permit. Also lets one more queued step block, since this thread is spare
    /// now.
    fn pass_on(&self, BecameSpare(next): BecameSpare) {
        next.into_iter().for_each(|next| self.host.unpark(next));
        // Run outside of the context, so that woken processes are not queued on this thread.
        self.without_context(|| self.host.wake_blocked_steps());
    }

    /// Begins to rest. `looks_again` is true if the thread has done sleep:S1 and has yet to do sleep:S3.
    pub(super) fn rest(&self, looks_again: bool, is_poller: bool) -> RestStep {
        self.host.quiet.notify();
        self.go_on_resting(PermitRest { looks_again, is_poller, expires: None, patience: None })
    }

    /// Performs sleep:S3, and the actions before and after each park.
    pub(super) fn go_on_resting(&self, mut rest: PermitRest) -> RestStep {
        let (host, poller) = (self.host, rest.is_poller);
        loop {
            let outcome = host.idle.look(self.index, poller);
            let asleep = matches!(outcome, RestOutcome::Asleep(_));
            // In the other cases (woken with a permit, or told to end) the thread searches all queues anyway.
            let is_called = !asleep && !matches!(outcome, RestOutcome::Spare(_));
            if !is_called && std::mem::take(&mut rest.looks_again) && self.look_again(poller) {
                continue;
            }
            rest.looks_again = asleep;
            rest.patience = match outcome {
                RestOutcome::Up(permit, behind) => {
                    self.take_up(permit);
                    self.behind.set(behind);
                    self.see_to_watch();
                    return RestStep::Up;
                }
                RestOutcome::Ended => return RestStep::Ended,
                RestOutcome::Asleep(_) if poller => self.patience(),
                RestOutcome::Asleep(has_spare) => {
                    has_spare.then_some(host.config.keep_alive).filter(|_| !self.is_driven)
                }
                RestOutcome::Spare(_) if self.is_driven => None,
                RestOutcome::Spare(has_surplus) => {
                    let now = instant_now();
                    let expires = *rest.expires.get_or_insert_with(|| now.checked_add(host.config.keep_alive));
                    let left = expires.map(|expires| expires.saturating_duration_since(now));
                    let is_over = has_surplus || left.is_some_and(|left| left.is_zero());
                    if is_over && self.deque.is_empty() && host.idle.with_permits(|permits| permits.retire(self.index))
                    {
                        return RestStep::Ended;
                    }
                    // The thread must not end yet: other threads must first empty its deque, or it is reserved for a
                    // step that blocks.
                    if is_over { Some(PAUSE) } else { left }
                }
            };
            return RestStep::Park(rest);
        }
    }

    /// Performs sleep:S4: parks the calling thread, which must be the thread of this context.
    pub(super) fn park(&self, rest: &Rest) {
        match rest {
            Rest::Inbox(pinned_thread) => pinned_thread.wait(|| self.host.is_paused()),
            // Parks in the reactor, if there is one.
            Rest::Permit(PermitRest { is_poller: true, looks_again: true, patience, .. }) => {
                self.park_as_poller(*patience);
            }
            Rest::Permit(PermitRest { patience, .. }) => park(*patience),
        }
        forget_now();
    }

    /// Performs watchdog:R3 and watchdog:G5 after the thread has got a permit.
    pub(crate) fn see_to_watch(&self) {
        if self.host.has_driver {
            self.host.notify_watchdog();
        }
        match self.host.idle.does_watchdog_rest() {
            true => self.thread.begins_unwatched(),
            false => self.thread.begins_watched(),
        }
    }

    /// Performs watchdog:G1: the thread has queued something without waking another thread for it.
    #[inline]
    pub(crate) fn be_watched(&self) {
        if self.thread.is_unwatched() {
            self.thread.begins_watched();
            self.host.notify_watchdog();
        }
    }

    /// Performs sleep:S3. If there is work, leaves the list of sleepers or, if the thread has lost its permit,
    /// announces the work to others. Returns whether there was work.
    fn look_again(&self, poller: bool) -> bool {
        let host = self.host;
        let unkept = !poller && host.has_unkept_timers();
        let due = poller && host.next_timer() <= Moment::now();
        // While another thread searches, this thread need not wake for work, since that thread finds it (sleep:F3 or
        // sleep:S3). While this thread is held back, it must not.
        let work = host.idle.wakes_for_work() && host.has_work();
        let any = unkept || due || work;
        if any && !host.idle.end_sleep(self.index) {
            if work {
                host.announce();
            }
            if unkept || due {
                host.wake_for_timer();
            }
        }
        any
    }

    fn patience(&self) -> Option<Duration> {
        let next = self.host.next_timer();
        (next < Moment::NEVER).then(|| next.since(Moment::now()))
    }
}

/// How long a thread that should end, but cannot yet, waits before it checks again.
const PAUSE: Duration = Duration::from_millis(10);
