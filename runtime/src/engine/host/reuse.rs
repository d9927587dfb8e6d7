//! Reusing the record of an ended host for another one.
//!
//! A record stays a valid `Scheduler` forever: everything that changes in it is atomic or behind a lock. So a thread
//! that reads it late, or keeps a reference to it, touches no freed memory; at worst it wakes a thread of the next
//! host, which finds nothing and parks again. Everything that must not reach the next host is excluded individually:
//!
//! * *messages and signals*: a PID names a slot's generation, and no process of the ended host is alive;
//! * *spawns*: the record has a generation, which each spawn compares once it has passed the gate
//!   ([`Scheduler::enter`]). From then on, the record cannot be reused;
//! * *calls by a handle* (`Host`): the handle also stores the generation, and refuses calls when the record has moved
//!   on;
//! * *the end of an unattended host*, which a thread may decide late, after it was preempted: the thread decides under
//!   a lock that [`Scheduler::renew`] takes as well;
//! * *timers*: their keys are never reused;
//! * *counts that go up and down* (processes under the limit, those inside the gate): they are kept, since a late
//!   thread will still count itself out.
//!
//! A record is free when its host has ended and nothing is left: no process, no thread, and nothing in a queue. A
//! record is not reused as long as any step of its host has not returned.

use super::{Config, Identity, Scheduler, UserCode, address_of};
use crate::engine::watchdog::report::WatchdogCounts;
use crate::env::program::{HOSTLESS, program_node};
use crate::mailbox::bound::Bound;
use crate::observe::counters::Counter;
use crate::observe::log_limit::LogLimit;
use crate::sync::{Arc, Ordering, PoisonError, lock, try_lock};
use crate::time::timers::TimerAction;
use crate::time::virtual_clock::Clock;
use std::time::Duration;

/// A host: a record, in one of its generations.
#[derive(Clone, Copy)]
pub(crate) struct HostRef {
    pub(crate) scheduler: &'static Scheduler,
    pub(crate) generation: u32,
}

impl HostRef {
    pub(crate) fn has_ended(self) -> bool {
        self.scheduler.generation() != self.generation
    }
}

impl Scheduler {
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Enters the gate if the record still has this generation. If this returns true, the caller must leave later.
    #[must_use = "who came in must leave"]
    #[inline(always)]
    pub(crate) fn enter(&'static self, generation: u32) -> bool {
        if !self.gate.enter(self.current_thread()) {
            return false;
        }
        let is_same = self.generation() == generation;
        if !is_same {
            self.leave();
        }
        is_same
    }

    /// Frees the record of a host that is shut down, if nothing is left of the host. Returns whether the record was
    /// freed.
    pub(crate) fn retire(&'static self) -> bool {
        let Some(_ending) = try_lock(&self.ending) else { return false };
        if !self.is_stopped() || self.gate.inside() > 0 || self.has_work() || !lock(&self.running).is_empty() {
            return false;
        }
        if !self.idle.with_permits(|permits| permits.is_empty()) || self.pinned_threads.count() > 0 {
            return false;
        }
        self.generation.fetch_add(1, Ordering::SeqCst);
        // The virtual clock may be reused, too, once it is dropped here.
        drop(std::mem::take(&mut *lock(&self.clock)));
        true
    }

    pub(crate) fn fits(&self, config: &Config, identity: &Identity, user: &UserCode) -> bool {
        self.config == *config
            && self.timers.fits(identity.threads_with_timers(config.permits))
            && self.has_hooks != user.hooks.hooks.is_empty()
            && self.has_reactor == user.reactor.is_some()
            && self.has_driver == user.driver().is_some()
    }

    pub(crate) fn ended() -> &'static Self {
        let config = Config {
            name: "ended".into(),
            permits: 1,
            limit: None,
            call_timeout: Duration::ZERO,
            mailbox: Bound::default(),
            stall_limit: Duration::MAX,
            blocking_threads: 1,
            stack: None,
            keep_alive: Duration::ZERO,
        };
        let identity = Identity { node: program_node(), number: HOSTLESS, seed: 0, clock: Clock::system() };
        let host = Self::new(config, identity, UserCode::default());
        host.gate.close();
        host.stop_threads();
        drop(host.take_user());
        host
    }

    /// Turns the record into the host `next`, and takes `next` out of the option. Does nothing if a late thread still
    /// uses the record. Returns whether the record was renewed.
    pub(crate) fn renew(&'static self, next: &mut Option<(Identity, UserCode)>) -> bool {
        let ending = lock(&self.ending);
        if !self.idle.renew() {
            return false;
        }
        let Some((Identity { node, number, seed, clock }, user)) = next.take() else { return false };
        self.node.store(node.get(), Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
        self.seed.store(seed, Ordering::Relaxed);
        self.clock_override.store(address_of(clock.clock_override()), Ordering::Release);
        *lock(&self.clock) = clock;
        self.names.renumber(number);
        self.recorder.reset();
        self.observe_recorded(false);
        self.slot_owner().renumber(node, number);
        for pinned_thread in self.pinned_threads.all() {
            pinned_thread.slot_owner().renumber(node, number);
            pinned_thread.thread.renew();
        }
        self.threads.first(usize::MAX).for_each(|(_, worker)| worker.renew());
        self.driven.forget_ended();
        while self.left.pop().is_some() {}
        let late = self.timers.take();
        self.generators.store(0, Ordering::Relaxed);
        self.incidents.clear();
        while self.timed.pop().is_some() {}
        lock(&self.labels).clear();
        lock(&self.in_place_logged).clear();
        *lock(&self.launched) = 0;
        *lock(&self.watchdog.thread) = None;
        let Self { suspensions, resumptions, forced_releases, blocked_in_place, threads_beyond_limit, .. } = self;
        let WatchdogCounts { ticks, stalls, taken_over, moved, .. } = &self.watchdog;
        let blocked = [suspensions, resumptions, forced_releases, blocked_in_place, threads_beyond_limit];
        let watched = [ticks, stalls, taken_over, moved];
        self.loss_limits.iter().for_each(LogLimit::reset);
        self.dead_letters.iter().chain(blocked).chain(watched).for_each(Counter::reset);
        *self.user.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(user));
        self.clock().add_user(self);
        self.unattended.store(false, Ordering::SeqCst);
        self.stopped.store(false, Ordering::SeqCst);
        self.gate.reopen();
        drop(ending);
        late.into_iter().for_each(TimerAction::discard);
        true
    }
}
