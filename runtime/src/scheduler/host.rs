//! One scheduler: its workers, its threads, its queues, and what it was built with.
//!
//! A host record is never freed: an address may outlive the runtime, and a sender that has just queued a process may still
//! look at who sleeps while that process, and the whole host, comes to its end.

use super::counters::Counter;
use super::dispatch::Dispatcher;
use super::gate::Gate;
use super::hooks::Hooks;
use super::idle::Idle;
use super::quiet::Quiet;
use super::thread::Thread;
use super::timers::{Due, FIRED, SOUGHT, Timers};
use super::worker::Worker;
use crate::clock::{Moment, Told};
use crate::mailbox::bound::Bound;
use crate::manual::Clock;
use crate::names::Names;
use crate::oneshot::Waiter;
use crate::pid::{NodeId, Pid};
use crate::sync::{
    Arc, AtomicBool, AtomicUsize, CachePadded, Deque, JoinHandle, Mutex, OnceLock, Ordering, PoisonError, RwLock,
    SegQueue,
};
use crate::table::{Home, Slot, Token};
use std::any::Any;
use std::collections::HashMap;
use std::ptr;
use std::time::Duration;

/// What a host is built with.
pub(crate) struct Config {
    pub(crate) name: Arc<str>,
    pub(crate) node: NodeId,
    pub(crate) number: u16,
    pub(crate) workers: usize,
    pub(crate) seed: u64,
    pub(crate) limit: Option<usize>,
    /// How long calls of its processes wait if nothing else is said.
    pub(crate) call_timeout: Duration,
    /// The bound of mailboxes that have none of their own.
    pub(crate) mailbox: Bound,
    /// What its processes see of time.
    pub(crate) clock: Clock,
}

impl Config {
    /// The bound that each mailbox is given as its own.
    pub(crate) fn own_mailbox(&self) -> Option<Bound> {
        Some(self.mailbox).filter(|bound| matches!(bound, Bound::Hard(..)))
    }
}

/// The users' own code that a host was built with. Dropped when the host has been shut down, unlike the host.
pub(crate) struct UserCode {
    pub(crate) dispatcher: Dispatcher,
    pub(crate) hooks: Hooks,
}

/// See the module.
pub(crate) struct Host {
    pub(crate) config: Config,
    user: RwLock<Option<Arc<UserCode>>>,
    /// Whether it has start and complete hooks.
    pub(crate) has_hooks: bool,
    home: OnceLock<&'static Home>,
    /// What users know it by, set by whoever built it.
    pub(crate) handle: OnceLock<&'static (dyn Any + Send + Sync)>,
    /// First in, first out, for all workers: what came from outside for the first time, and what has used its budget.
    pub(crate) global: SegQueue<Token>,
    pub(crate) workers: Box<[CachePadded<Worker>]>,
    pub(crate) threads: Box<[CachePadded<Thread>]>,
    pub(crate) idle: Idle,
    pub(crate) timers: Timers,
    pub(crate) quiet: Quiet,
    /// The time that it goes by, if it is not the system's.
    pub(crate) told: Told,
    pub(crate) gate: Gate,
    /// Processes that hold a place under the limit.
    places: AtomicUsize,
    /// Whether a shutdown has begun that nobody waits for.
    pub(crate) unattended: AtomicBool,
    /// Whether the threads are to end.
    pub(crate) stopped: AtomicBool,
    pub(crate) dead_ended: Counter,
    pub(crate) dead_unhandled: Counter,
    pub(crate) dead_overflow: Counter,
    /// How often a process was held, let go, and let go because it had waited for so long.
    pub(crate) holds: Counter,
    pub(crate) let_go: Counter,
    pub(crate) valves: Counter,
    pub(crate) dead_expired: Counter,
    /// Labels of those processes that have one.
    pub(crate) labels: Mutex<HashMap<Pid, Arc<str>>>,
    pub(crate) names: Names,
    /// Deques whose threads have not been started, and the threads that have.
    pub(crate) deques: Mutex<Vec<Deque<Token>>>,
    pub(crate) running: Mutex<Vec<JoinHandle<()>>>,
    /// Processes in a step that waits on its thread's stack, whose worker another thread has.
    pub(crate) blocked: Mutex<Vec<Blocked>>,
}

/// A process in a step that waits on its thread's stack.
pub(crate) struct Blocked {
    pub(crate) slot: &'static Slot,
    /// The thread.
    pub(crate) waiter: Arc<Waiter>,
}

impl Host {
    /// A host whose threads have not been started.
    pub(crate) fn new(config: Config, user: UserCode) -> &'static Self {
        let count = config.workers;
        let (threads, deques): (Vec<_>, Vec<_>) = (0..count).map(|_| Thread::new()).unzip();
        let host: &'static Self = Box::leak(Box::new(Self {
            has_hooks: !user.hooks.hooks.is_empty(),
            user: RwLock::new(Some(Arc::new(user))),
            home: OnceLock::new(),
            handle: OnceLock::new(),
            global: SegQueue::new(),
            workers: (0..count).map(|_| CachePadded::new(Worker::new())).collect(),
            threads: threads.into_iter().map(CachePadded::new).collect(),
            idle: Idle::new(count),
            // One order for all that is due, if a test is to see it.
            timers: Timers::new(if config.clock.is_manual() { 0 } else { count }),
            quiet: Quiet::default(),
            told: config.clock.told(),
            gate: Gate::new(count),
            places: AtomicUsize::new(0),
            unattended: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            dead_ended: Counter::default(),
            dead_unhandled: Counter::default(),
            dead_overflow: Counter::default(),
            holds: Counter::default(),
            let_go: Counter::default(),
            valves: Counter::default(),
            dead_expired: Counter::default(),
            labels: Mutex::default(),
            names: Names::default(),
            deques: Mutex::new(deques),
            running: Mutex::default(),
            blocked: Mutex::default(),
            config,
        }));
        let home = Home::new(host, host.config.node, host.config.number);
        let _first = host.home.set(Box::leak(Box::new(home)));
        host.config.clock.drive(host);
        host
    }

    pub(crate) fn home(&self) -> &'static Home {
        self.home.get().unwrap_or_else(|| unreachable!("set when the host was made"))
    }

    /// P2 to P5 of the sleep protocol: work has been pushed.
    #[inline]
    pub(crate) fn announce(&self) {
        if let Some(thread) = self.idle.announce() {
            self.threads[thread].unpark();
        }
    }

    /// The users' own code, until the host has been shut down. Takes a lock that all threads share: workers have their own.
    pub(crate) fn user(&self) -> Option<Arc<UserCode>> {
        self.user.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Drops the users' own code: what it holds on to, such as the end of a channel, is let go.
    pub(crate) fn drop_user(&self) {
        let user = self.user.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Err(panic) = crate::panics::contain(|| drop(user)) {
            tracing::error!(%panic, "the drop of a hook or of a command handler panicked");
        }
    }

    /// Puts a process at the end of the line that all workers share.
    pub(crate) fn push_global(&self, token: Token) {
        self.global.push(token);
        self.announce();
    }

    /// Whether there is work in any queue that anyone may take from at any time.
    pub(crate) fn has_work(&self) -> bool {
        !self.global.is_empty()
            || self.workers.iter().any(|worker| !worker.inject.is_empty())
            || self.threads.iter().any(|thread| !thread.stealer.is_empty())
    }

    /// Whether timers are pending that no sleeper has been told to keep.
    pub(crate) fn has_unkept_timers(&self) -> bool {
        self.next_timer() < Moment::NEVER && !self.idle.has_lookout()
    }

    /// When the next timer is due that the host's own threads are to fire: those of a manual clock are fired by whoever
    /// moves it.
    #[inline]
    pub(crate) fn next_timer(&self) -> Moment {
        if self.told.is_some() { Moment::NEVER } else { self.timers.next() }
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

    /// Fires all that is due at `now`, however long that takes, in order: for whoever fires alone.
    pub(crate) fn fire_all_timers(&self, now: Moment) {
        while self.timers.next() <= now {
            self.fire(self.timers.due(now));
        }
    }

    /// Fires what is due at `now`, for a while: if more is due, who calls it lets others have their turn and calls it again.
    #[cold]
    pub(crate) fn fire_timers(&self, now: Moment) {
        let worker = self.current_worker();
        let mut left = FIRED;
        while left > 0 && self.timers.next() <= now {
            left = left.saturating_sub(self.fire(self.timers.due_beside_others(worker, now)));
        }
    }

    /// Does what a look for timers has found. Gives how much of [`FIRED`] it has cost.
    fn fire(&self, due: Due) -> u32 {
        match due {
            Due::Fire(action) => {
                // It may clone or drop a user's message.
                if let Err(panic) = crate::panics::contain(|| action.perform()) {
                    tracing::error!(%panic, "what a timer did panicked");
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

    /// A timer is due before all others: whoever keeps the time is told.
    #[cold]
    pub(crate) fn wake_for_timer(&self) {
        if self.told.is_none()
            && let Some(thread) = self.idle.timer_set()
        {
            self.threads[thread].unpark();
        }
    }

    /// The slots of the processes that live on this host.
    pub(crate) fn slots(&'static self) -> impl Iterator<Item = &'static Slot> {
        let home = ptr::from_ref(self.home());
        crate::table::TABLE
            .slots()
            .filter(move |slot| slot.living().is_some() && slot.home().is_some_and(|other| ptr::eq(other, home)))
    }

    /// How many threads sleep, run or search: for statistics, stale at once.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Ends the threads, which have nothing left to run.
    pub(crate) fn stop_threads(&'static self) {
        self.stopped.store(true, Ordering::SeqCst);
        for thread in self.idle.rouse_all() {
            self.threads[thread].unpark();
        }
        self.config.clock.let_go(self);
        self.quiet.tell();
    }
}
