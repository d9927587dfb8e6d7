//! A host's scheduler: its permits, its threads, its queues, and its configuration.
//!
//! A host record is never freed, since a late thread may still read it; instead it is [reused](reuse).

pub(crate) mod backlog;
pub(crate) mod commands;
pub(crate) mod gate;
pub(crate) mod hooks;
pub(crate) mod incidents;
pub(crate) mod late_slot;
pub(crate) mod late_slots;
pub(crate) mod losses;
mod recall;
pub(crate) mod reuse;

use super::io::reactor::Reactor;
use super::permits::sleep::{Idle, MAX_WORKERS};
use super::watchdog::report::WatchdogCounts;
use super::workers::Permit;
use super::workers::driven::DrivenPermits;
use super::workers::pinned::PinnedThreads;
use super::workers::threads::{StartedThread, Workers};
use super::workers::timed::TimedStep;
use super::workers::worker::{CALLED, Worker};
use crate::call::dead_letter::DeadLetterReason;
use crate::env::chance::Random;
use crate::env::clock::{ClockOverride, Moment, SharedMoment};
use crate::env::program::Acting;
use crate::mailbox::bound::Bound;
use crate::names::table::Names;
use crate::observe::counters::Counter;
use crate::pid::{NodeId, Pid};
use crate::recorder::{kind::RecordKind, session::Recorder};
use crate::slots::slot::words::LastPermit;
use crate::slots::{Slot, SlotOwner, Token};
use crate::sync::{
    Arc, AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, CachePadded, Condvar, Mutex, OnceLock,
    Ordering, PoisonError, RwLock, SegQueue, fence, lock,
};
use crate::time::timers::{Due, FIRED, SOUGHT, TimerAction, Timers, complete};
use crate::time::virtual_clock::Clock;
use crate::util::defer::{Defer, defer};
use crate::util::notifiers::{self, Series};
use crate::util::panics::{Site, contain};
use backlog::Backlogs;
use commands::Handlers;
use gate::Gate;
use hooks::Hooks;
use incidents::IncidentWatchers;
use late_slot::LateSlot;
use losses::LossLimits;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::ptr;
use std::time::{Duration, Instant};

/// The configuration of a host. A record is reused only for a host with an equal configuration.
#[derive(PartialEq)]
pub(crate) struct Config {
    pub(crate) name: Arc<str>,
    pub(crate) permits: usize,
    pub(crate) limit: Option<usize>,
    pub(crate) call_timeout: Duration,
    pub(crate) mailbox: Bound,
    /// How long a step may run while others wait.
    pub(crate) stall_limit: Duration,
    /// Maximum number of threads beyond the permits, for steps that block.
    pub(crate) blocking_threads: usize,
    /// The stack size of its threads in bytes, if configured.
    pub(crate) stack: Option<usize>,
    /// How long a thread beyond the permits stays idle before it ends.
    pub(crate) keep_alive: Duration,
}

/// The properties in which hosts that share a record may differ.
pub(crate) struct Identity {
    pub(crate) node: NodeId,
    pub(crate) number: u16,
    pub(crate) seed: u64,
    pub(crate) clock: Clock,
}

impl Identity {
    /// Returns how many threads have timer wheels of their own: none with a virtual clock, so that all timers share one
    /// order.
    fn threads_with_timers(&self, permits: usize) -> usize {
        if self.clock.is_manual() { 0 } else { permits }
    }
}

/// The user code of a host. Unlike the record, it is dropped when the host has been shut down.
#[derive(Default)]
pub(crate) struct UserCode {
    pub(crate) handlers: Handlers,
    pub(crate) hooks: Hooks,
    pub(crate) reactor: Option<Box<dyn Reactor>>,
}

/// Any thread that uses the user code may drop the last reference to it, so a notifier drops the parts.
impl Drop for UserCode {
    fn drop(&mut self) {
        let (handlers, hooks, reactor) =
            (std::mem::take(&mut self.handlers), std::mem::take(&mut self.hooks), self.reactor.take());
        notifiers::run(move || {
            // Each part is dropped under its own guard.
            handlers.into_each().for_each(drop_user_code);
            let Hooks { hooks, dead_letter, stall } = hooks;
            hooks.into_iter().for_each(drop_user_code);
            drop_user_code(dead_letter);
            drop_user_code(stall);
            drop_user_code(reactor);
        });
    }
}

fn drop_user_code<T>(part: T) {
    if let Err(panic) = contain(Site::HookDrop, || drop(part)) {
        crate::util::log::error!(%panic, "the drop of a hook or of a command handler panicked");
    }
}

pub(crate) struct Scheduler {
    pub(crate) config: Config,
    user: RwLock<Option<Arc<UserCode>>>,
    pub(crate) has_hooks: bool,
    /// Whether spawns and exits are reported, to hooks or to the recorder.
    observed: AtomicBool,
    pub(crate) recorder: Recorder,
    pub(crate) has_reactor: bool,
    pub(crate) has_driver: bool,
    slot_owner: OnceLock<&'static SlotOwner>,
    /// The record that the user's handles refer to, set by the builder.
    pub(crate) handle: OnceLock<&'static (dyn Any + Send + Sync)>,
    /// The FIFO queue that all permits share. It holds processes woken from outside for the first time, and those that
    /// have used up their budget.
    pub(crate) global: SegQueue<Token>,
    pub(crate) permits: Box<[CachePadded<Permit>]>,
    /// The records of threads, with the indices that `sleep` uses.
    pub(crate) threads: Workers,
    /// The numbers of threads without a permit whose deque is not empty. Each is listed once.
    pub(crate) left: SegQueue<usize>,
    /// Vacant slots that a worker has yet to empty.
    pub(crate) late_slots: SegQueue<LateSlot>,
    pub(crate) pinned_threads: PinnedThreads,
    pub(crate) idle: Idle,
    pub(crate) timers: Timers,
    pub(crate) quiet: Quiet,
    pub(crate) watchdog: WatchdogCounts,
    pub(crate) incidents: IncidentWatchers,
    /// Steps that were timed on request and have not been read yet.
    pub(crate) timed: SegQueue<TimedStep>,
    /// Counts the hosts that have used this record.
    generation: AtomicU32,
    node: AtomicU64,
    number: AtomicU16,
    seed: AtomicU64,
    clock: Mutex<Clock>,
    /// The time of the host's virtual clock, if it has one.
    clock_override: AtomicPtr<SharedMoment>,
    pub(crate) gate: Gate,
    /// Number of processes that count against the limit.
    places: AtomicUsize,
    /// Number of random generators created besides those of the threads.
    generators: AtomicUsize,
    /// Whether the threads are left unjoined: after a shutdown, or during one that no thread waits for.
    pub(crate) unattended: AtomicBool,
    pub(crate) stopped: AtomicBool,
    pub(crate) dead_letters: [Counter; DeadLetterReason::COUNT],
    pub(crate) loss_limits: LossLimits,
    /// Reports of dead letters, from threads that must not run user code.
    pub(crate) losses: Series,
    /// Number of times that a process was suspended.
    pub(crate) suspensions: Counter,
    /// Number of times that a process was resumed.
    pub(crate) resumptions: Counter,
    /// Number of times that a process was resumed because it had waited for the maximum time.
    pub(crate) forced_releases: Counter,
    pub(crate) backlogs: Backlogs,
    pub(crate) labels: Mutex<BTreeMap<Pid, Arc<str>>>,
    pub(crate) names: Names,
    /// Locked while a thread is being started.
    pub(crate) growing: Mutex<()>,
    /// The shutdown that no thread waits for, until it is over. Locked while the host ends unattended, and while the
    /// record is reused.
    pub(crate) ending: Mutex<Option<UnattendedShutdown>>,
    pub(crate) running: Mutex<Vec<StartedThread>>,
    pub(crate) driven: DrivenPermits,
    /// Number of permits that have had their first thread.
    pub(crate) launched: Mutex<usize>,
    /// Number of times that a step blocked its permit because the limit of threads was reached.
    pub(crate) blocked_in_place: Counter,
    /// The process types for which a blocked permit was logged.
    pub(crate) in_place_logged: Mutex<BTreeSet<&'static str>>,
    /// Number of times that a thread was started beyond the limit, because a process waited for another and no permit
    /// was left.
    pub(crate) threads_beyond_limit: Counter,
}

/// Threads that wait until nothing of a host runs or can run: see [`quiescence`](crate::engine::shutdown::quiescence).
#[derive(Default)]
pub(crate) struct Quiet {
    pub(crate) waiting: AtomicUsize,
    pub(crate) lock: Mutex<()>,
    pub(crate) changed: Condvar,
}

impl Quiet {
    /// Performs rest:Q1: counts the calling thread as waiting, until the guard is dropped.
    pub(crate) fn wait(&self) -> Defer<impl FnMut()> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        defer(|| _ = self.waiting.fetch_sub(1, Ordering::SeqCst))
    }

    /// Performs rest:T2 and rest:T3, after a thread has parked or the host has been shut down.
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _waiting = lock(&self.lock);
            self.changed.notify_all();
        }
    }
}

/// A shutdown that was begun from inside: the data for the report that is made when the last process has left.
pub(crate) struct UnattendedShutdown {
    pub(crate) began: Instant,
    /// Number of processes that were inside when the shutdown began.
    pub(crate) alive: u64,
    /// Number of messages that exits had discarded when the shutdown began.
    pub(crate) dead: u64,
    pub(crate) killed: u64,
}

impl Scheduler {
    /// Makes a new record for a host whose threads have not been started.
    pub(crate) fn new(config: Config, identity: Identity, user: UserCode) -> &'static Self {
        let (count, timers) = (config.permits, identity.threads_with_timers(config.permits));
        let Identity { node, number, seed, clock } = identity;
        let threads = Workers::new();
        (0..count).for_each(|thread| _ = threads.make(thread));
        let host: &'static Self = Box::leak(Box::new(Self {
            has_hooks: !user.hooks.hooks.is_empty(),
            observed: AtomicBool::new(!user.hooks.hooks.is_empty()),
            recorder: Recorder::default(),
            has_reactor: user.reactor.is_some(),
            has_driver: user.driver().is_some(),
            user: RwLock::new(Some(Arc::new(user))),
            slot_owner: OnceLock::new(),
            handle: OnceLock::new(),
            global: SegQueue::new(),
            permits: (0..count).map(|_| CachePadded::new(Permit::default())).collect(),
            threads,
            left: SegQueue::new(),
            late_slots: SegQueue::new(),
            pinned_threads: PinnedThreads::default(),
            idle: Idle::new(count, count.saturating_add(config.blocking_threads)),
            timers: Timers::new(timers),
            quiet: Quiet::default(),
            watchdog: WatchdogCounts::default(),
            incidents: IncidentWatchers::default(),
            timed: SegQueue::new(),
            generation: AtomicU32::new(0),
            node: AtomicU64::new(node.get()),
            number: AtomicU16::new(number),
            seed: AtomicU64::new(seed),
            clock_override: AtomicPtr::new(address_of(clock.clock_override())),
            clock: Mutex::new(clock),
            gate: Gate::new(count),
            places: AtomicUsize::new(0),
            generators: AtomicUsize::new(0),
            unattended: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            dead_letters: Default::default(),
            loss_limits: LossLimits::default(),
            losses: Series::default(),
            suspensions: Counter::default(),
            resumptions: Counter::default(),
            forced_releases: Counter::default(),
            backlogs: Backlogs::default(),
            labels: Mutex::default(),
            names: Names::of(number),
            growing: Mutex::default(),
            ending: Mutex::default(),
            running: Mutex::default(),
            driven: DrivenPermits::default(),
            launched: Mutex::new(0),
            blocked_in_place: Counter::default(),
            in_place_logged: Mutex::default(),
            threads_beyond_limit: Counter::default(),
            config,
        }));
        let _first = host.slot_owner.set(Box::leak(Box::new(SlotOwner::new(host, node, number))));
        host.clock().add_user(host);
        host
    }

    /// Returns the node of the host's PIDs.
    pub(crate) fn node(&self) -> NodeId {
        NodeId::new(self.node.load(Ordering::Relaxed)).unwrap_or_else(|| unreachable!("made from a node ID"))
    }

    pub(crate) fn dead(&self, reason: DeadLetterReason) -> u64 {
        self.dead_letters[reason as usize].get()
    }

    pub(crate) fn number(&self) -> u16 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed.load(Ordering::Relaxed)
    }

    pub(crate) fn clock(&self) -> Clock {
        lock(&self.clock).clone()
    }

    #[inline]
    pub(crate) fn clock_override(&self) -> ClockOverride {
        // SAFETY: only addresses of `&'static SharedMoment` are stored.
        unsafe { self.clock_override.load(Ordering::Acquire).as_ref() }
    }

    #[inline]
    pub(crate) fn slot_owner(&self) -> &'static SlotOwner {
        self.slot_owner.get().unwrap_or_else(|| unreachable!("set when the host was made"))
    }

    /// Performs sleep:P2 to sleep:P5 after work was pushed, and shutdown:L3 after the fence of sleep:P2.
    #[inline]
    pub(crate) fn announce(&'static self) {
        match self.idle.announce() {
            Some(thread) => self.unpark(thread),
            // watchdog:G2. A searching thread announces the work again if it cannot take it.
            None if self.idle.does_watchdog_rest() && !self.idle.is_anyone_searching() => self.wake_watchdog(),
            None => {}
        }
        if self.is_stopped() {
            self.end_late();
        }
    }

    /// Returns the user code, or `None` once the host has been shut down. Takes a shared lock; the host's threads have
    /// references of their own.
    pub(crate) fn user(&self) -> Option<Arc<UserCode>> {
        self.user.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the user code out, so that the caller can drop it, and everything that it owns, without a lock.
    #[must_use = "its drop is users' code"]
    pub(crate) fn take_user(&self) -> Option<Arc<UserCode>> {
        self.user.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn push_global(&'static self, token: Token) {
        self.global.push(token);
        self.announce();
    }

    /// Returns whether a queue that any thread may take from has work.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.global.is_empty()
            || !self.late_slots.is_empty()
            || self.permits.iter().any(|permit| !permit.inject.is_empty())
            || self.threads_in_use().any(|(_, thread)| !thread.stealer.is_empty())
    }

    /// Returns the existing thread records up to the highest one in use, with their numbers.
    #[inline]
    pub(crate) fn threads_in_use(&self) -> impl Iterator<Item = (usize, &Worker)> {
        self.threads.first(self.idle.high())
    }

    /// Returns the slots of the processes that the threads run now, including pinned ones.
    pub(crate) fn at_work(&self) -> impl Iterator<Item = &'static Slot> {
        let pinned = self.pinned_threads.all().into_iter().filter_map(|pinned_thread| pinned_thread.thread.running());
        self.threads_in_use().filter_map(|(_, thread)| thread.running()).chain(pinned)
    }

    /// Stores the handle of a started thread for the shutdown to join. If the handle is dropped instead, the system
    /// frees the thread's stack when the thread ends.
    pub(crate) fn keep_thread(&self, thread: StartedThread) {
        let mut threads = lock(&self.running);
        if self.unattended.load(Ordering::SeqCst) {
            return;
        }
        // Handles of ended threads are removed here, so that the list is never longer than the number of threads.
        threads.retain(|started| !started.has_ended());
        threads.push(thread);
    }

    /// Returns a generator of random numbers for a supervisor or a pool, derived from the host's seed.
    pub(crate) fn random(&self) -> Random {
        // The lower numbers belong to the threads.
        let number = u64::from(u32::MAX) + self.generators.fetch_add(1, Ordering::Relaxed) as u64;
        Random::new(self.seed(), number)
    }

    /// Detaches the threads, present and future: they will not be joined.
    pub(crate) fn leave_unattended(&self) {
        self.unattended.store(true, Ordering::SeqCst);
        // The lock ensures that either `keep_thread` has seen the flag, or this sees the handle.
        lock(&self.running).clear();
    }

    pub(crate) fn unpark(&self, thread: usize) {
        if let Some(thread) = self.threads.get(thread) {
            thread.unpark();
        }
    }

    /// Lists the thread among those that left work in their deques, if its deque is not empty.
    pub(crate) fn leave_behind(&self, number: usize, thread: &Worker) {
        if !thread.stealer.is_empty() && !thread.is_left.swap(true, Ordering::SeqCst) {
            self.left.push(number);
        }
    }

    /// Returns whether there are timers that no parked thread waits for.
    #[inline]
    pub(crate) fn has_unkept_timers(&self) -> bool {
        self.next_timer() < Moment::NEVER && !self.idle.has_poller()
    }

    /// Returns when the next timer that the host's own threads must fire is due. Timers of a virtual clock are not
    /// included: the thread that advances the clock fires them.
    #[inline]
    pub(crate) fn next_timer(&self) -> Moment {
        if self.clock_override().is_some() { Moment::NEVER } else { self.timers.next() }
    }

    /// Returns whether spawns and exits are reported.
    #[inline(always)]
    pub(crate) fn is_observed(&self) -> bool {
        self.observed.load(Ordering::Relaxed)
    }

    /// Starts or stops reporting spawns and exits to the recorder.
    pub(crate) fn observe_recorded(&self, are_recorded: bool) {
        self.observed.store(self.has_hooks || are_recorded, Ordering::SeqCst);
    }

    #[inline]
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

    /// Fires all timers due at `now`, in order, however long that takes. The caller must be the only thread that fires
    /// timers.
    pub(crate) fn fire_all_timers(&'static self, now: Moment) {
        while self.timers.next() <= now {
            let due = self.timers.due(now);
            let is_timer = matches!(due, Due::Fire(..));
            self.fire(due);
            if is_timer && crate::sync::simulated::here().is_some_and(|simulator| !simulator.fired()) {
                break;
            }
        }
    }

    /// Fires timers due at `now`, up to a limit. If more are due, the caller lets processes run before it calls this
    /// again.
    #[cold]
    pub(crate) fn fire_timers(&'static self, now: Moment) {
        let permit = self.current_worker();
        let mut left = FIRED;
        while left > 0 && self.timers.next() <= now {
            left = left.saturating_sub(self.fire(self.timers.due_beside_others(permit, now)));
        }
    }

    /// Handles the result of a search for due timers. Returns its cost, which counts against [`FIRED`].
    fn fire(&'static self, due: Due) -> u32 {
        if let Due::Fire(action, due) = &due
            && self.recorder.is_sampling()
        {
            let late = Moment::now_by(self.clock_override()).since(*due).as_nanos() as u64;
            self.recorder.note(RecordKind::TimerFired, action.process(), late, None);
        }
        match due {
            Due::Fire(TimerAction::Complete { slot, generation, tag }, _) => {
                complete(slot, generation, tag);
                1
            }
            Due::Fire(action, _) => {
                let _acting = Acting::begin(self.node());
                // The action may clone or drop a user message, or wake a task of another executor.
                if let Err(panic) = contain(Site::TimerAction, || self.while_visiting(|| action.perform())) {
                    crate::util::log::error!(%panic, "the action of a timer panicked");
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

    /// Wakes the thread that waits for timers, since a new timer is due before all others.
    #[cold]
    pub(crate) fn wake_for_timer(&self) {
        if self.clock_override().is_some() {
            return;
        }
        match self.idle.timer_set() {
            Some(thread) => self.unpark(thread),
            // watchdog:G3.
            None => self.notify_watchdog(),
        }
    }

    pub(crate) fn slots(&'static self) -> impl Iterator<Item = &'static Slot> {
        crate::slots::TABLE.slots().filter(move |slot| self.has_alive(slot))
    }

    pub(crate) fn has_alive(&self, slot: &Slot) -> bool {
        slot.living().is_some() && slot.owner().is_some_and(|other| other.is_beside(self.slot_owner()))
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
        self.clock().remove_user(self);
        self.quiet.notify();
    }
}

const _: () = assert!(MAX_WORKERS < LastPermit::MOST, "a slot can name each permit");

fn address_of(time: ClockOverride) -> *mut SharedMoment {
    time.map_or(ptr::null_mut(), |time| ptr::from_ref(time).cast_mut())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;
    use crate::sync::{ThreadKind, spawn_thread};
    use crate::util::oneshot::Oneshot;
    use std::sync::mpsc::{Sender, channel};
    use std::task::{Wake, Waker};

    struct SaysWhere(Sender<ThreadKind>);

    impl Drop for SaysWhere {
        fn drop(&mut self) {
            self.0.send(ThreadKind::current()).expect("it is waited for");
        }
    }

    struct WokenWhere(Mutex<Sender<ThreadKind>>);

    impl Wake for WokenWhere {
        fn wake(self: Arc<Self>) {
            lock(&self.0).send(ThreadKind::current()).expect("it is waited for");
        }
    }

    /// Catches: a watchdog that uses a host's user code while the host ends, and then drops the last reference to it; a
    /// thread of a cluster that drops an undeliverable message, or wakes the task that waits for an answer.
    #[test]
    fn no_users_code_runs_on_a_thread_that_others_depend_on() {
        let (say, said) = channel();
        let (hook, message) = (SaysWhere(say.clone()), SaysWhere(say.clone()));
        let mut user = UserCode::default();
        user.hooks.stall = Some(Box::new(move |_| _ = &hook));
        let (user, message, answer) = (Arc::new(user), crate::Payload::new(message), Arc::new(Oneshot::new()));
        let waker = Waker::from(Arc::new(WokenWhere(Mutex::new(say))));
        assert!(answer.poll(&waker).is_pending());
        drop(waker);
        let run = move || {
            drop((user, message));
            answer.put(7);
        };
        spawn_thread(ThreadKind::Watchdog, "watchdog".to_string(), run).expect("it starts");
        assert_eq!(said.iter().collect::<Vec<_>>(), [ThreadKind::Notifier; 3]);
    }

    /// Catches: a supervisor or a pool that takes random numbers from the system, so a run cannot be repeated from its
    /// seed.
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
