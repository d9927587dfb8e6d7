//! One scheduler: its permits, its threads, its queues, and what it was built with.
//!
//! A host record is never freed: an address may outlive the runtime, and a sender that has just queued a process may
//! still look at who sleeps while that process, and the whole host, comes to its end. It is [used again](reuse)
//! instead.

pub(crate) mod backlog;
pub(crate) mod commands;
pub(crate) mod gate;
pub(crate) mod hooks;
pub(crate) mod idle_waiters;
pub(crate) mod reuse;

use super::io::reactor::Reactor;
use super::permits::sleep::Idle;
use super::watchdog::report::WatchdogCounts;
use super::workers::permit::Permit;
use super::workers::pinned::PinnedThreads;
use super::workers::threads::{StartedThread, Workers};
use super::workers::worker::{CALLED, Worker};
use crate::env::chance::Random;
use crate::env::clock::{ClockOverride, Moment, SharedMoment};
use crate::mailbox::bound::Bound;
use crate::names::table::Names;
use crate::observe::counters::Counter;
use crate::pid::{NodeId, Pid};
use crate::slots::{Slot, SlotOwner, Token};
use crate::sync::{
    Arc, AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, CachePadded, Mutex, OnceLock, Ordering,
    PoisonError, RwLock, SegQueue, lock,
};
use crate::time::timers::{Due, FIRED, SOUGHT, TimerAction, Timers, complete};
use crate::time::virtual_clock::Clock;
use crate::util::panics::{Site, contain};
use backlog::Backlogs;
use commands::Dispatcher;
use gate::Gate;
use hooks::Hooks;
use idle_waiters::Quiet;
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::ptr;
use std::time::Duration;

/// What a host is built with, and keeps: a record is used again for a host that is built alike.
#[derive(PartialEq)]
pub(crate) struct Config {
    pub(crate) name: Arc<str>,
    pub(crate) node: NodeId,
    pub(crate) permits: usize,
    pub(crate) limit: Option<usize>,
    /// How long calls of its processes wait if nothing else is said.
    pub(crate) call_timeout: Duration,
    /// The bound of mailboxes that have none of their own.
    pub(crate) mailbox: Bound,
    /// For how long a step may run while others wait.
    pub(crate) stall_limit: Duration,
    /// How many threads it may have besides one for each permit, while steps block.
    pub(crate) blocking_threads: usize,
    /// How many bytes of stack its threads have, if that was said.
    pub(crate) stack: Option<usize>,
    /// How long such a thread stays when it has nothing to do.
    pub(crate) keep_alive: Duration,
}

/// What is another one for each host, also where a record is used again.
pub(crate) struct Identity {
    pub(crate) number: u16,
    pub(crate) seed: u64,
    /// What its processes see of time.
    pub(crate) clock: Clock,
}

impl Identity {
    /// How many threads set timers in wheels of their own: none, if a test is to see one order of all that is due.
    fn threads_with_timers(&self, permits: usize) -> usize {
        if self.clock.is_manual() { 0 } else { permits }
    }
}

impl Config {
    /// The bound that each mailbox is given as its own.
    pub(crate) fn own_mailbox(&self) -> Option<Bound> {
        Some(self.mailbox).filter(|bound| matches!(bound, Bound::Hard(..)))
    }
}

/// The users' own code that a host was built with. Dropped when the host has been shut down, unlike the host.
#[derive(Default)]
pub(crate) struct UserCode {
    pub(crate) dispatcher: Dispatcher,
    pub(crate) hooks: Hooks,
    pub(crate) reactor: Option<Box<dyn Reactor>>,
}

/// See the module.
pub(crate) struct Scheduler {
    pub(crate) config: Config,
    user: RwLock<Option<Arc<UserCode>>>,
    pub(crate) has_hooks: bool,
    /// Whether its processes run within a reactor.
    pub(crate) has_reactor: bool,
    pub(crate) has_driver: bool,
    home: OnceLock<&'static SlotOwner>,
    /// What users know it by, set by its builder.
    pub(crate) handle: OnceLock<&'static (dyn Any + Send + Sync)>,
    /// First in, first out, for all permits: what came from outside for the first time, and what has used its budget.
    pub(crate) global: SegQueue<Token>,
    pub(crate) permits: Box<[CachePadded<Permit>]>,
    /// Their numbers are those of `sleep`.
    pub(crate) threads: Workers,
    /// Threads without a permit whose deque has something, by their numbers: each once.
    pub(crate) left: SegQueue<usize>,
    pub(crate) pinned_threads: PinnedThreads,
    pub(crate) idle: Idle,
    pub(crate) timers: Timers,
    pub(crate) quiet: Quiet,
    pub(crate) watchdog: WatchdogCounts,
    /// Counts the hosts that this record has been.
    life: AtomicU32,
    number: AtomicU16,
    seed: AtomicU64,
    clock: Mutex<Clock>,
    /// The time that the clock tells, if it is not the system's.
    clock_override: AtomicPtr<SharedMoment>,
    pub(crate) gate: Gate,
    /// Processes that hold a place under the limit.
    places: AtomicUsize,
    /// How many generators of random numbers there have been, beside those of the threads.
    generators: AtomicUsize,
    /// Whether no thread waits for the threads: a shutdown has begun that is not waited for, or one is over.
    pub(crate) unattended: AtomicBool,
    /// Whether the threads are to end.
    pub(crate) stopped: AtomicBool,
    pub(crate) dead_ended: Counter,
    pub(crate) dead_unhandled: Counter,
    pub(crate) dead_overflow: Counter,
    /// How often a process was suspended, resumed, and resumed because it had waited for too long.
    pub(crate) suspensions: Counter,
    pub(crate) resumptions: Counter,
    pub(crate) forced_releases: Counter,
    pub(crate) dead_expired: Counter,
    /// What keeps messages for its processes outside of their mailboxes.
    pub(crate) backlogs: Backlogs,
    pub(crate) dead_withdrawn: Counter,
    pub(crate) labels: Mutex<HashMap<Pid, Arc<str>>>,
    pub(crate) names: Names,
    /// Held by the thread that starts a thread for want of one.
    pub(crate) growing: Mutex<()>,
    /// Held while the host ends without anyone waiting for it, and while the record begins to be another host.
    pub(crate) ending: Mutex<()>,
    /// The threads that have been started.
    pub(crate) running: Mutex<Vec<StartedThread>>,
    /// How many permits have got their first thread.
    pub(crate) launched: Mutex<usize>,
    /// How often a step has blocked with its permit because there were as many threads as there may be, and of which
    /// process types that was said.
    pub(crate) blocked_in_place: Counter,
    pub(crate) in_place_told: Mutex<HashSet<&'static str>>,
    /// How often a thread was started beyond that number, because a process waited for another one and no permit was
    /// left.
    pub(crate) threads_beyond_limit: Counter,
}

impl Scheduler {
    /// A record of its own for a host whose threads have not been started.
    pub(crate) fn new(config: Config, identity: Identity, user: UserCode) -> &'static Self {
        let (count, timers) = (config.permits, identity.threads_with_timers(config.permits));
        let Identity { number, seed, clock } = identity;
        let threads = Workers::new();
        (0..count).for_each(|thread| _ = threads.make(thread));
        let host: &'static Self = Box::leak(Box::new(Self {
            has_hooks: !user.hooks.hooks.is_empty(),
            has_reactor: user.reactor.is_some(),
            has_driver: user.driver().is_some(),
            user: RwLock::new(Some(Arc::new(user))),
            home: OnceLock::new(),
            handle: OnceLock::new(),
            global: SegQueue::new(),
            permits: (0..count).map(|_| CachePadded::new(Permit::new())).collect(),
            threads,
            left: SegQueue::new(),
            pinned_threads: PinnedThreads::default(),
            idle: Idle::new(count, count.saturating_add(config.blocking_threads)),
            timers: Timers::new(timers),
            quiet: Quiet::default(),
            watchdog: WatchdogCounts::default(),
            life: AtomicU32::new(0),
            number: AtomicU16::new(number),
            seed: AtomicU64::new(seed),
            clock_override: AtomicPtr::new(address_of(clock.told())),
            clock: Mutex::new(clock),
            gate: Gate::new(count),
            places: AtomicUsize::new(0),
            generators: AtomicUsize::new(0),
            unattended: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            dead_ended: Counter::default(),
            dead_unhandled: Counter::default(),
            dead_overflow: Counter::default(),
            suspensions: Counter::default(),
            resumptions: Counter::default(),
            forced_releases: Counter::default(),
            dead_expired: Counter::default(),
            backlogs: Backlogs::default(),
            dead_withdrawn: Counter::default(),
            labels: Mutex::default(),
            names: Names::of(number),
            growing: Mutex::default(),
            ending: Mutex::default(),
            running: Mutex::default(),
            launched: Mutex::new(0),
            blocked_in_place: Counter::default(),
            in_place_told: Mutex::default(),
            threads_beyond_limit: Counter::default(),
            config,
        }));
        let home = SlotOwner::new(host, host.config.node, number);
        let _first = host.home.set(Box::leak(Box::new(home)));
        host.clock().drive(host);
        host
    }

    /// The host's number in its node.
    pub(crate) fn number(&self) -> u16 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed.load(Ordering::Relaxed)
    }

    /// The clock that its processes go by.
    pub(crate) fn clock(&self) -> Clock {
        lock(&self.clock).clone()
    }

    /// The time that its clock tells, if it is not the system's.
    #[inline]
    pub(crate) fn clock_override(&self) -> ClockOverride {
        // SAFETY: only addresses of `&'static SharedMoment` are stored.
        unsafe { self.clock_override.load(Ordering::Acquire).as_ref() }
    }

    pub(crate) fn home(&self) -> &'static SlotOwner {
        self.home.get().unwrap_or_else(|| unreachable!("set when the host was made"))
    }

    /// sleep:P2 to sleep:P5 of the sleep protocol: work has been pushed. And shutdown:L3, after the fence
    /// of sleep:P2.
    #[inline]
    pub(crate) fn announce(&'static self) {
        match self.idle.announce() {
            Some(thread) => self.unpark(thread),
            // watchdog:G2. Who searches announces it anew if that is of no avail.
            None if self.idle.does_watchdog_rest() && !self.idle.is_anyone_searching() => self.wake_watchdog(),
            None => {}
        }
        if self.is_stopped() {
            self.end_late();
        }
    }

    /// The users' own code, until the host has been shut down. Takes a lock that all threads share: permits have their
    /// own.
    pub(crate) fn user(&self) -> Option<Arc<UserCode>> {
        self.user.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Drops the users' own code: what it holds on to, such as the end of a channel, is dropped.
    pub(crate) fn drop_user(&self) {
        let user = self.user.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Err(panic) = contain(Site::HookDrop, || drop(user)) {
            crate::util::log::error!(%panic, "the drop of a hook or of a command handler panicked");
        }
    }

    /// Puts a process at the end of the line that all permits share.
    pub(crate) fn push_global(&'static self, token: Token) {
        self.global.push(token);
        self.announce();
    }

    /// Returns whether there is work in any queue that anyone may take from at any time.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.global.is_empty()
            || self.permits.iter().any(|permit| !permit.inject.is_empty())
            || self.threads_in_use().any(|(_, thread)| !thread.stealer.is_empty())
    }

    /// The threads that there may be, with their numbers.
    #[inline]
    pub(crate) fn threads_in_use(&self) -> impl Iterator<Item = (usize, &Worker)> {
        self.threads.first(self.idle.high())
    }

    /// What all the threads run now, those of the pinned processes included.
    pub(crate) fn at_work(&self) -> impl Iterator<Item = &'static Slot> {
        let pinned = self.pinned_threads.all().into_iter().filter_map(|pinned_thread| pinned_thread.thread.running());
        self.threads_in_use().filter_map(|(_, thread)| thread.running()).chain(pinned)
    }

    /// Keeps the handle of a thread that has been started, for the shutdown to join it. Without its handle the system
    /// takes the thread's stack back when it ends.
    pub(crate) fn keep_thread(&self, thread: StartedThread) {
        let mut threads = lock(&self.running);
        if self.unattended.load(Ordering::SeqCst) {
            return;
        }
        // Those that have ended are forgotten here, so that their number stays that of the threads.
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    /// Returns a generator of random numbers for a supervisor or a pool, which follows from the host's seed.
    pub(crate) fn random(&self) -> Random {
        // The first numbers are those of the threads.
        let number = u64::from(u32::MAX) + self.generators.fetch_add(1, Ordering::Relaxed) as u64;
        Random::new(self.seed(), number)
    }

    /// No thread will join the threads from here on: neither those that there are nor those that are still to be
    /// started.
    pub(crate) fn leave_unattended(&self) {
        self.unattended.store(true, Ordering::SeqCst);
        // Under the lock either `keep_thread` has seen that, or this sees what it has put there.
        lock(&self.running).clear();
    }

    /// Wakes that thread.
    pub(crate) fn unpark(&self, thread: usize) {
        if let Some(thread) = self.threads.get(thread) {
            thread.unpark();
        }
    }

    /// Moves what a thread was to run next to the inject queue of the permit that `holder` suspensions, or to the
    /// global queue if it has none. Returns whether there was something.
    ///
    /// In the global queue it would stand behind all others; the inject queue is visited next by the thread that has
    /// the permit, and by all that search. While none can lie down: so it is in a queue again before its thread can, or
    /// the host would seem to be at rest.
    pub(crate) fn move_run_next(&'static self, thread: &Worker, holder: usize) -> bool {
        let moved = self.idle.while_none_lies_down(holder, |permit| match thread.take_run_next() {
            Some(token) => {
                permit.map_or(&self.global, |permit| &self.permits[permit].inject).push(token);
                true
            }
            None => false,
        });
        if moved {
            self.announce();
        }
        moved
    }

    /// Returns how many processes are in queues that anyone may take from at any time.
    pub(crate) fn count_queued(&self) -> usize {
        let injected: usize = self.permits.iter().map(|permit| permit.inject.len()).sum();
        let own: usize = self.threads_in_use().map(|(_, thread)| thread.stealer.len()).sum();
        self.global.len() + injected + own
    }

    /// Puts the thread into the line of those that have left something in their deque, if it has.
    pub(crate) fn leave_behind(&self, number: usize, thread: &Worker) {
        if !thread.stealer.is_empty() && !thread.is_left.swap(true, Ordering::SeqCst) {
            self.left.push(number);
        }
    }

    /// Returns whether timers are pending that no sleeper has been told to keep.
    #[inline]
    pub(crate) fn has_unkept_timers(&self) -> bool {
        self.next_timer() < Moment::NEVER && !self.idle.has_poller()
    }

    /// When the next timer is due that the host's own threads are to fire: those of a manual clock are fired by the
    /// thread that moves it.
    #[inline]
    pub(crate) fn next_timer(&self) -> Moment {
        if self.clock_override().is_some() { Moment::NEVER } else { self.timers.next() }
    }

    /// Takes a place under the limit.
    pub(crate) fn take_place(&self) -> bool {
        let Some(limit) = self.config.limit else { return true };
        self.places
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |taken| (taken < limit).then_some(taken + 1))
            .is_ok()
    }

    pub(crate) fn give_place_back(&self) {
        if self.config.limit.is_some() {
            self.places.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Fires all that is due at `now`, however long that takes, in order: for the thread that fires alone.
    pub(crate) fn fire_all_timers(&self, now: Moment) {
        while self.timers.next() <= now {
            self.fire(self.timers.due(now));
        }
    }

    /// Fires what is due at `now`, for a while: if more is due, who calls it lets others have their turn and calls it
    /// again.
    #[cold]
    pub(crate) fn fire_timers(&self, now: Moment) {
        let permit = self.current_worker();
        let mut left = FIRED;
        while left > 0 && self.timers.next() <= now {
            left = left.saturating_sub(self.fire(self.timers.due_beside_others(permit, now)));
        }
    }

    /// Does what a look for timers has found. Returns how much of [`FIRED`] it has cost.
    fn fire(&self, due: Due) -> u32 {
        match due {
            Due::Fire(TimerAction::Complete { slot, generation, tag }) => {
                complete(slot, generation, tag);
                1
            }
            Due::Fire(action) => {
                // It may clone or drop a user's message, or wake a task of some executor.
                if let Err(panic) = contain(Site::TimerAction, || self.while_visiting(|| action.perform())) {
                    crate::util::log::error!(%panic, "what a timer did panicked");
                }
                1
            }
            Due::Sought => SOUGHT,
            Due::Taken => FIRED,
            Due::Nothing => {
                if self.timers.raise() {
                    self.wake_for_timer();
                }
                0
            }
        }
    }

    /// A timer is due before all others: the thread that keeps the time is told.
    #[cold]
    pub(crate) fn wake_for_timer(&self) {
        if self.clock_override().is_some() {
            return;
        }
        match self.idle.timer_set() {
            Some(thread) => self.unpark(thread),
            // watchdog:G3.
            None => self.rouse_watchdog(),
        }
    }

    /// The slots of the processes that live on this host.
    pub(crate) fn slots(&'static self) -> impl Iterator<Item = &'static Slot> {
        let home = self.home();
        crate::slots::TABLE
            .slots()
            .filter(move |slot| slot.living().is_some() && slot.home().is_some_and(|other| other.is_beside(home)))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Ends the threads, which have nothing left to run.
    pub(crate) fn stop_threads(&'static self) {
        self.stopped.store(true, Ordering::SeqCst);
        for number in self.idle.stop() {
            if let Some(thread) = self.threads.get(number) {
                thread.call(CALLED);
                thread.unpark();
            }
        }
        self.wake_watchdog();
        self.clock().let_go(self);
        self.quiet.tell();
    }
}

fn address_of(told: ClockOverride) -> *mut SharedMoment {
    told.map_or(ptr::null_mut(), |told| ptr::from_ref(told).cast_mut())
}

#[cfg(test)]
mod tests {
    use crate::Runtime;

    /// Catches: a supervisor or a pool that draws from the system, so that a run cannot be repeated from its seed.
    #[test]
    fn generators_follow_from_the_seed_one_after_the_other() {
        let hosts = [7, 7, 8].map(|seed| Runtime::builder().workers(1).seed(seed).build().expect("one worker"));
        let drawn = hosts.each_ref().map(|runtime| {
            let scheduler = runtime.host().scheduler();
            [scheduler.random().next(), scheduler.random().next()]
        });
        assert_eq!(drawn[0], drawn[1]);
        assert!(drawn[0][0] != drawn[0][1] && drawn[0] != drawn[2]);
    }
}
