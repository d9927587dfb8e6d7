//! Detecting that nothing of a host runs or can run, and waiting for that state.
//!
//! # At rest
//!
//! A host is at rest if all its threads sleep, no queue or run-next slot contains a process, and each process that
//! waits on a thread's stack (`.wait()`) has looked for its answer and has not been woken since. A process is in one
//! place at a time: parked in its mailbox, queued, or held by a thread. A thread of the host that holds a process is
//! off the list of sleepers: it leaves the list before it takes one (`find`; also the poller, before it takes over work
//! behind a long step), and enters the list when it has found none. So while all are on the list, only other threads
//! may hold processes. A thread that sends from outside has queued the process when its `send` returns, so everything
//! sent before the check is seen.
//!
//! A check reads the number of times that threads have left the list, if all are on it; then the queues; then that
//! number again. If the number is the same, all threads slept from before the queues were read until after, so no
//! thread of the host has filled a queue after the check read it.
//!
//! To wake a thread that waits on its stack, another thread clears the waiting thread's mark of being at rest, and then
//! unparks that thread. It does both before it can go to sleep itself. The woken thread counts as blocked until it has
//! a permit back, and a permit whose thread runs is not asleep.
//!
//! # Waiting for rest
//!
//! * Q1 a thread that waits counts itself; Q2 it takes the lock, checks, and waits on the condition variable under the
//!   lock.
//! * T1 a thread enters the list of sleepers; T2 it executes a fence; T3 unless the count is zero, it notifies under
//!   the lock.
//!
//! Either T3 sees the count, and notifies under the lock. It does so either before the check, which then sees the list,
//! or while the waiter waits. Or the count came after T2, and the check of Q2 sees the list as T1 left it.

use crate::engine::host::Scheduler;
use crate::env::clock::{Moment, instant_now};
use crate::sync::{Ordering, fence, lock, wait_for};
use crate::time::virtual_clock::{ClockUser, IdleError, PATIENCE};
use crate::util::block_on::RestWatcher;
use std::time::Instant;

/// Maximum number of processes that an error names.
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
        if crate::sync::simulated::is_here() {
            return Some(0);
        }
        if self.is_stopped() {
            return Some(u64::MAX);
        }
        let (rises, pinned_threads) = (self.idle.all_asleep()?, self.pinned_threads.at_rest()?);
        fence(Ordering::SeqCst);
        let queued = self.has_work() || self.threads_in_use().any(|(_, thread)| thread.local.has_work());
        // A thread without a permit may be in a step although that is not visible yet.
        let without_permit = self.idle.with_permits(|permits| permits.without_permit());
        let moves = |thread: &usize| self.threads.get(*thread).is_some_and(|thread| !thread.is_at_rest());
        let moved = queued || without_permit.iter().any(moves);
        let again =
            !moved && self.pinned_threads.at_rest() == Some(pinned_threads) && self.idle.all_asleep() == Some(rises);
        again.then_some(rises.wrapping_add(pinned_threads))
    }

    fn wait_until_at_rest(&'static self, until: Instant) -> Result<(), IdleError> {
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
            // With the system's clock, a thread of the host fires due timers, and wakes up to do so.
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
        // Dead letters of these timers count for this host.
        crate::call::dead_letter::while_sinking_into(self, || self.fire_all_timers(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;

    /// Catches: a thread that is still counted after its wait, so the host's threads notify it each time they park.
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
