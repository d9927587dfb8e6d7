//! The thread of a host that looks for steps that do not end: it looks, has
//! [`stall`](crate::engine::watchdog::detector) judge, and does what follows. Without help from the code that is stuck.
//!
//! # A tick
//!
//! * K1 it looks at all threads and queues; K2 what is queued while permits sleep is announced once more, since the
//!   thread that queued it may have overlooked them (`sleep`, *Own work*); K3 each thread in a time slice is told that
//!   a tick has passed: it looks at the far ends of its queues and at the time before its next turn (`find`), and a
//!   time slice that was told before ends (`slice`); K4 what `detector` has judged is done; K5 a thread drives the
//!   reactor, if there is one (`driving`).
//!
//! A thread that runs tasks of the reactor, or what a timer does, between two steps is taken to be in a step. A pinned
//! process holds no permit, and keeps no thread from one: it may take as long as it likes, and is not watched.
//!
//! What it has seen may have changed when it acts. A run-next slot is emptied by an exchange, whatever process has
//! filled it since, and under the lock of `sleep`, so that its process is in a queue again before the thread that had
//! it can lie down (`settle` takes a host whose threads all sleep, with nothing queued, to be at rest). A step that
//! ended just before its permit is taken over has its thread notice that before the next one (`handoff`): one thread
//! too many was woken for that.
//!
//! # Rest
//!
//! * R1 the watchdog has found all permits idle at some ticks: under the lock of `sleep` it looks whether they all are;
//!   if so, it notes that it rests. R2 it parks until the note is gone.
//! * U1 a thread that has got a permit, under the lock, looks whether the watchdog rests. If so it is *unwatched*: it
//!   notes that, and when its time slice began: so it can be told later how long it has been at that.
//! * G1 an unwatched thread that queues something without telling others of it (in its run-next slot, in its deque, in
//!   the global queue), G2 a thread that announces something and finds no thread that sleeps or searches (sleep:P3 of
//!   `sleep`), G3 a thread that sets a timer and finds no thread to keep it, G4 a thread that joins the line for a
//!   permit: looks whether the watchdog rests, and if so takes the note away, and unparks it. G5 where there is a
//!   reactor, U1 does so.
//!
//! *Nothing waits unwatched.* Who waits is in a queue, or is a timer that no thread keeps, or in the line. When R1 puts
//! the note down all permits are on the list of the sleepers, so all queues are empty but for what a sleeper is yet to
//! find (sleep:S3) and to get up for, or what is announced after it. From there on a step is taken only by threads that
//! have done U1 after R1, as the lock says. What they queue is told of by G1, or announced. Of what is announced,
//! sleep:P3 finds a sleeper, who is called and searches; or a searcher, who comes to it or to sleep:F3 or sleep:S3, and
//! announces it once more if it is still there (timers without a poller among it); or neither: G2. So as long as the
//! note stands, what is queued is about to be looked at by one who searches. A step that has lost its permit may go on
//! while the watchdog rests: it announces what it queues, once it knows (`handoff`, handoff:M2); and as long as the end
//! of such a step is to be told of the watchdog rests only for a while at a time.
//!
//! So a message now and then into a host that is at rest wakes one thread, and no ticks. (Each such message was
//! measured to come 1.5 to 2 µs later, after 2.7, with a thread beside it that wakes every 2.5 ms, be it in another
//! program.)
//!
//! A model is in `tests/models`.

use crate::engine::host::{Scheduler, UserCode};
use crate::engine::permits::holders::At;
use crate::engine::watchdog::detector::{HostSample, Order, RestUntil, StallDetector, StepId, ThreadSample, tick_of};
use crate::engine::watchdog::report::Report;
use crate::engine::watchdog::report::Stall;
use crate::engine::workers::threads::StartedThread;
use crate::env::clock::Moment;
use crate::pid::Resident;
use crate::sync::{Arc, Ordering, lock, park, spawn_thread, sync_channel, unpark};
use crate::util::panics::{Site, contain, dispose, ignore};
use std::ptr;
use std::time::Duration;

/// What the thread keeps from one look to the next.
struct Looks {
    watch: StallDetector,
    places: Vec<At>,
    threads: Vec<ThreadSample>,
    orders: Vec<Order>,
    /// Of each thread: the stall that was reported and has not ended.
    open: Vec<Option<Stall>>,
}

impl Scheduler {
    /// Starts the thread.
    pub(crate) fn start_watchdog(&'static self) -> std::io::Result<()> {
        let mut watchdog = lock(&self.watchdog.thread);
        if watchdog.is_none() {
            let thread = spawn_thread(format!("{}-watchdog", self.config.name), move || self.look_on())?;
            *watchdog = Some(thread.thread().clone());
            self.keep_thread(StartedThread::new(thread, None));
        }
        Ok(())
    }

    /// The thread's life.
    fn look_on(&'static self) {
        crate::util::panics::contain_thread();
        let watch = StallDetector::new(self.config.stall_limit);
        let mut looks = Looks { watch, places: Vec::new(), threads: Vec::new(), orders: Vec::new(), open: Vec::new() };
        let tick = tick_of(self.config.stall_limit);
        while !self.is_stopped() {
            let now = Moment::now_by(None);
            match self.look(&mut looks, now) {
                RestUntil::Tick => self.stay(now.after(tick), || true),
                RestUntil::Calm(longest) => {
                    if self.idle.rest_watchdog() {
                        let until = longest.map_or(Moment::NEVER, |longest| now.after(longest));
                        self.stay(until, || self.idle.does_watchdog_rest());
                        // If it was the time that ended it; otherwise another thread has.
                        let _rested = self.idle.end_watchdog_rest();
                    }
                }
            }
        }
        // Ends the thread that reports, when it has told what is left.
        *lock(&self.watchdog.reporter) = None;
    }

    /// Parks until then, or until there is something to look for, or the host stops.
    fn stay(&self, until: Moment, rests: impl Fn() -> bool) {
        loop {
            let rest = until.since(Moment::now_by(None));
            if rest.is_zero() || !rests() || self.is_stopped() {
                return;
            }
            park((until < Moment::NEVER).then_some(rest));
        }
    }

    /// G1 to G5: a thread may wait.
    #[inline]
    pub(crate) fn rouse_watchdog(&self) {
        if self.idle.does_watchdog_rest() {
            self.wake_watchdog();
        }
    }

    /// Wakes it: it looks at once.
    #[cold]
    pub(crate) fn wake_watchdog(&self) {
        let _rested = self.idle.end_watchdog_rest();
        if let Some(thread) = &*lock(&self.watchdog.thread) {
            unpark(thread);
        }
    }

    /// A tick. Returns what comes after it.
    fn look(&'static self, looks: &mut Looks, now: Moment) -> RestUntil {
        let crew = self.idle.survey(&mut looks.places);
        looks.threads.clear();
        for (number, thread) in self.threads_in_use() {
            let at = looks.places.get(number).copied().unwrap_or(At::Free);
            // Who blocks runs nothing.
            let step = thread.step().filter(|_| matches!(at, At::Up(_) | At::Detached));
            if step.is_some_and(StepId::is_of_a_process) {
                // K3.
                thread.tick();
            }
            looks.threads.resize(number, ThreadSample::default());
            let begun = step.and_then(|step| thread.begun_unwatched(step.steps));
            let has_worker = matches!(at, At::Up(_));
            looks.threads.push(ThreadSample { step, begun, has_worker, has_run_next: thread.has_run_next() });
        }
        let is_due = self.next_timer() <= now;
        let queued = self.count_queued() + usize::from(is_due);
        if queued > 0 && crew.sleeping > 0 {
            // K2.
            self.announce();
        }
        let queued = queued + looks.places.iter().filter(|&&at| at == At::Waiting).count();
        let steps = self.threads.first(usize::MAX).map(|(_, thread)| thread.counters.steps.get()).sum();
        let sight =
            HostSample { now, threads: &looks.threads, queued, steps, idle: crew.idle, all_idle: crew.all_idle };
        let rest = looks.watch.look(sight, &mut looks.orders);
        // K4.
        self.carry_out(&looks.orders, &mut looks.open);
        looks.orders.clear();
        self.tend_reactor();
        self.watchdog.ticks.add(1);
        rest
    }

    /// Does what was judged. Who is stuck is noted first: it may be what is done now that ends the step.
    fn carry_out(&'static self, orders: &[Order], open: &mut Vec<Option<Stall>>) {
        for order in orders {
            if let Order::Report(thread, lasted) = *order {
                open.resize(open.len().max(thread + 1), None);
                open[thread] = self.stall(thread, lasted);
                if open[thread].is_none() && self.threads.get(thread).is_some_and(|thread| thread.is_visiting()) {
                    crate::util::log::warn!(?lasted, host = %self.config.name, "a task of the reactor, or what \
                        a timer does, has stalled: others wait");
                }
            }
        }
        for order in orders {
            match *order {
                Order::Move(thread) => {
                    if self.threads.get(thread).is_some_and(|record| self.move_run_next(record, thread)) {
                        self.watchdog.moved.add(1);
                    }
                }
                Order::TakeOver(thread) => {
                    if self.take_over(thread) {
                        self.watchdog.taken_over.add(1);
                        if let Some(Some(stall)) = open.get_mut(thread) {
                            stall.taken_over = true;
                        }
                    }
                }
                Order::Report(..) => {}
                Order::Ended(thread, lasted) => {
                    if let Some(stall) = open.get_mut(thread).and_then(Option::take) {
                        self.tell_of(&Stall { lasted, is_over: true, ..stall });
                    }
                }
            }
        }
        for order in orders {
            if let Order::Report(thread, _) = *order
                && let Some(stall) = &open[thread]
            {
                self.watchdog.stalls.add(1);
                self.tell_of(stall);
            }
        }
    }

    /// What is known of the step of that thread; `None` if it has ended meanwhile.
    fn stall(&'static self, thread: usize, lasted: Duration) -> Option<Stall> {
        let record = self.threads.get(thread)?;
        let slot = record.running()?;
        let pid = slot.resident()?;
        let (process, entry) = slot.metadata.names()?;
        let message = record.turn.message();
        crate::sync::fence(Ordering::Acquire);
        let is_same = slot.resident() == Some(pid) && record.running().is_some_and(|now| ptr::eq(now, slot));
        let taken_over = !matches!(self.idle.at(thread), At::Up(_));
        is_same.then_some(Stall { pid, process, entry, message, lasted, taken_over, is_over: false })
    }

    /// Reports a stall, on a thread of its own: a hook or a subscriber that blocks must not keep this one from its
    /// looks.
    fn tell_of(&self, stall: &Stall) {
        let (user, stall) = (self.user(), stall.clone());
        let label = self.label(stall.pid);
        let report: Report = Box::new(move || tell(user, label, &stall));
        let mut reporter = lock(&self.watchdog.reporter);
        if reporter.is_none() {
            let (sender, reports) = sync_channel::<Report>(REPORTS);
            let tell_all = move || reports.into_iter().for_each(|report| report());
            if spawn_thread(format!("{}-reports", self.config.name), tell_all).is_ok() {
                *reporter = Some(sender);
            }
        }
        // One too many is counted and not told; so it is without a thread.
        let _full = reporter.as_ref().map(|reporter| reporter.try_send(report));
    }
}

/// How many stalls wait to be told at most, behind a hook that blocks. A guess.
const REPORTS: usize = 256;

/// Tells users of a stall.
fn tell(user: Option<Arc<UserCode>>, label: Option<Arc<str>>, stall: &Stall) {
    crate::util::panics::contain_thread();
    // A subscriber is users' code, too.
    if let Err(panic) = contain(Site::StallLog, || log(label.as_deref(), stall)) {
        ignore(Site::Backstop, || crate::util::log::error!(%panic, "the log of a stall panicked"));
    }
    if let Some(user) = &user {
        user.hooks.stall(stall);
    }
    dispose(Site::HookDrop, user);
}

fn log(label: Option<&str>, stall: &Stall) {
    let Stall { pid, process, entry, message: message_type, lasted, taken_over, is_over } = stall;
    if *is_over {
        crate::util::log::warn!(%pid, process, entry, label, message_type, ?lasted, taken_over, "a stalled step has ended");
    } else {
        crate::util::log::warn!(
            %pid, process, entry, label, message_type, ?lasted, taken_over,
            "a step has stalled: others wait"
        );
    }
}
