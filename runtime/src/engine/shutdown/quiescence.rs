//! Detecting that nothing of a host runs or can run, and waiting for it.
//!
//! # At rest
//!
//! A host is at rest if all its threads sleep, no queue or run-next slot holds a process, and each process that waits
//! on a thread's stack (`.wait()`) has looked for its answer, and has not been woken since. A process is in one place
//! at a time: parked in its mailbox, queued, or held by a thread. A thread of the host that holds one is off the list
//! of sleepers: it leaves the list before it takes one (`find`; also the poller, before it takes over work behind a
//! long step), and it enters the list when it has found none. So while all are on the list, only other threads may hold
//! processes: a thread that sends from outside has queued the process when its `send` returns, so that everything sent
//! before the question is seen.
//!
//! A look reads the number of unparks while all sleep, then the queues. The same number again shows that all slept from
//! before the queues were read until after, so that no thread of the host filled one behind the look.
//!
//! A thread that wakes a thread waiting on its stack clears the mark of its rest before it unparks it, hence before it
//! can sleep itself; and that thread stays among the blocked until it has its permit back, which is not asleep then.
//!
//! # Waiting for it
//!
//! * Q1 the waiting thread counts itself; Q2 takes the lock, looks, and waits on the condition under the lock.
//! * T1 a thread enters the list of sleepers; T2 fence; T3 unless the count is zero, notifies under the lock.
//!
//! Either T3 sees the count, and the notification comes after the look (then the waiter has seen the list, or waits),
//! or the count came after T2, and the look of Q2 sees the list as T1 left it.

use crate::engine::host::Scheduler;
use crate::env::clock::{Moment, instant_now};
use crate::sync::{Ordering, fence, lock, wait_for};
use crate::time::virtual_clock::{ClockUser, IdleError, PATIENCE};
use crate::util::oneshot::RestWatcher;
use std::time::Instant;

/// How many processes an error names.
const NAMED: usize = 5;

impl Scheduler {
    /// Waits until the host is at rest, and nothing is due.
    pub(crate) fn wait_until_idle(&'static self) -> Result<(), IdleError> {
        let name = || self.config.name.to_string();
        if crate::engine::sched::launch::is_of_a_host() {
            return Err(IdleError::Inside);
        }
        if self.is_stopped() {
            return Err(IdleError::Shutdown(name()));
        }
        if !self.clock().settle()? {
            self.wait_until_at_rest(instant_now() + PATIENCE)?;
        }
        if self.is_stopped() { Err(IdleError::Shutdown(name())) } else { Ok(()) }
    }

    fn busy_processes(&'static self) -> String {
        let named =
            |slot: &crate::slots::Slot| slot.metadata.names().map(|(process, entry)| format!("{process}::{entry}"));
        let running = self.at_work();
        let ready = self.slots().filter(|slot| matches!(slot.glance(), (false, false)));
        let some: Vec<String> = running.chain(ready).filter_map(named).take(NAMED).collect();
        if some.is_empty() { "none that could be named".to_string() } else { some.join(", ") }
    }
}

impl RestWatcher for Scheduler {
    fn rests(&self) {
        self.quiet.notify();
    }
}

impl ClockUser for Scheduler {
    fn at_rest(&self) -> Option<u64> {
        #[cfg(feature = "test")]
        if crate::sync::simulated::is_here() {
            return Some(0);
        }
        if self.is_stopped() {
            return Some(u64::MAX);
        }
        let (rises, pinned_threads) = (self.idle.all_asleep()?, self.pinned_threads.at_rest()?);
        fence(Ordering::SeqCst);
        let queued = self.has_work() || self.threads_in_use().any(|(_, thread)| thread.local.has_work());
        // A thread without a permit may be in a step before that is visible.
        let without_permit = self.idle.with_permits(|permits| permits.without_permit());
        let moves = |thread: &usize| self.threads.get(*thread).is_some_and(|thread| !thread.is_at_rest());
        let moved = queued || without_permit.iter().any(moves);
        let again =
            !moved && self.pinned_threads.at_rest() == Some(pinned_threads) && self.idle.all_asleep() == Some(rises);
        again.then_some(rises.wrapping_add(pinned_threads))
    }

    fn wait_until_at_rest(&'static self, until: Instant) -> Result<(), IdleError> {
        #[cfg(feature = "test")]
        if let Some(simulator) = crate::sync::simulated::here() {
            simulator.wait_until_idle();
            return Ok(());
        }
        let _waiting = self.quiet.wait();
        let mut guard = lock(&self.quiet.lock);
        loop {
            if self.is_paused() && !self.is_stopped() {
                return Err(IdleError::Paused(self.config.name.to_string()));
            }
            // With the system's clock, due timers are fired by a thread of the host, which unparks for it.
            if self.at_rest().is_some() && (self.is_stopped() || self.next_timer() > Moment::now()) {
                return Ok(());
            }
            let rest = until.saturating_duration_since(instant_now());
            if rest.is_zero() {
                return Err(ClockUser::busy(self));
            }
            guard = wait_for(&self.quiet.changed, guard, rest);
        }
    }

    fn busy(&'static self) -> IdleError {
        let runtime = self.config.name.to_string();
        IdleError::Busy { runtime, waited: PATIENCE, processes: self.busy_processes() }
    }

    fn next_due(&self) -> Moment {
        self.timers.next()
    }

    fn fire(&'static self, now: Moment) {
        // Their dead letters are this host's.
        crate::call::dead_letter::while_sinking_into(self, || self.fire_all_timers(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;

    /// Catches: a host whose threads signal, each time they park, a thread that has stopped waiting.
    #[test]
    fn no_thread_is_counted_as_waiting_after_its_wait() {
        for is_paused in [false, true] {
            let builder = Runtime::builder().workers(1);
            let runtime = if is_paused { builder.paused() } else { builder }.build().expect("one worker");
            let host = runtime.host().scheduler();
            assert_eq!(host.wait_until_idle().is_err(), is_paused);
            assert_eq!(host.quiet.waiting.load(Ordering::SeqCst), 0);
        }
    }
}
