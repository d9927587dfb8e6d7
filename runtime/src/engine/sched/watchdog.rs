//! The host's watchdog: samples the threads, lets the [`detector`](crate::engine::watchdog::detector) decide, and
//! executes its orders. It needs no cooperation from the code that is stuck.
//!
//! # A tick
//!
//! * K1 it samples all threads and queues, and sets the limit of awake threads (`awake`); K2 it announces work that is
//!   queued while permits sleep, since the thread that queued it may have overlooked the sleepers (`sleep`, *Own work*
//!   and *Held back*); K3 it marks each thread that is in a time slice: such a thread visits the shared queues and
//!   checks the clock before its next time slice (`find`), and a time slice that was already marked ends (`slice`); K4
//!   it executes the orders of the `detector`; K5 it makes sure that a thread drives the reactor, if there is one
//!   (`driving`), and each permit that has no thread (`driven`).
//!
//! A thread that runs tasks of the reactor, or a timer's action, between two steps counts as being in a step. A pinned
//! process holds no permit and prevents no thread from getting one, so it may take any amount of time and is not
//! watched.
//!
//! The sample may be stale by the time it is acted on. An order to take the tokens that a thread keeps to itself
//! (`thread_cache`) takes whichever tokens the thread has by then. That happens under the lock of `sleep`, so that a
//! process with input is in a queue again before its thread can park (`quiescence` considers a host idle if all its
//! threads sleep and nothing is queued). If a step ends just before its permit is taken over, its thread notices before
//! the next step (`handoff`): the only cost is that one thread was woken in vain.
//!
//! # Rest
//!
//! * R1 after some ticks with all permits idle, the watchdog checks under the lock of `sleep` whether they still are.
//!   If so, it sets a flag to show that it rests. R2 it frees the large blocks that the program keeps, and parks until
//!   the flag is cleared.
//! * R3 a thread that has got a permit, under the lock, then checks whether the watchdog rests. If so the thread is
//!   *unwatched*: it records this, and the time at which its time slice began, so that the length of the time slice can
//!   be measured later.
//! * Each of the following checks whether the watchdog rests, and if so clears the flag and unparks the watchdog: G1 an
//!   unwatched thread that queues something without announcing it (in its run-next slot, in its deque, in the global
//!   queue), G2 a thread that announces something and finds no thread that sleeps or searches (sleep:P3), G3 a thread
//!   that sets a timer and finds no thread to wait for it, G4 a thread that queues for a permit, and G5 on a host with
//!   a reactor, a thread in R3.
//!
//! *Nothing waits unwatched.* Anything that waits is in a queue, is a timer that no thread waits for, or is a thread
//! that queues for a permit. When R1 sets the flag, all permits are on the list of sleepers, so all queues are empty
//! except for work that a sleeper is about to find (sleep:S3), or that is announced after R1. Because of the order of
//! the lock, steps are run from then on only by threads that have done R3 after R1. The work that they queue is
//! reported by G1, or announced. For announced work there are three cases. If sleep:P3 finds a sleeper, that thread is
//! woken and searches. If it finds a searcher, that thread takes the work, or it does sleep:F3 or sleep:S3 and
//! announces the work again if it is still queued (this includes timers without a poller). If it finds neither, G2
//! applies. So while the flag is set, a searcher is about to look at queued work (or its task to be polled: `driven`).
//! A step that has lost its permit may continue while the watchdog rests: once it knows of the loss, it announces the
//! work that it queues (handoff:M2). While the end of such a step has yet to be reported, the watchdog rests only for a
//! limited time.
//!
//! So an occasional message to an idle host wakes one thread, and causes no ticks. (Each such message takes 2.7 µs. In
//! measurements, another thread that wakes every 2.5 ms, even in another program, added 1.5 to 2 µs.)
//!
//! A model is in `tests/models`.

use super::awake::AwakeWatch;
use crate::engine::host::Scheduler;
use crate::engine::host::incidents::KeptStall;
use crate::engine::permits::holders::At;
use crate::engine::watchdog::detector::{HostSample, Order, RestUntil, StallDetector, ThreadSample, tick_of};
use crate::engine::watchdog::report::Stall;
use crate::engine::workers::driven::DrivenWatch;
use crate::engine::workers::threads::StartedThread;
use crate::env::clock::{Moment, instant_now};
use crate::mem::large_blocks;
use crate::pid::Resident;
use crate::recorder::{kind::RecordKind, session::DumpCause};
use crate::sync::{Ordering, ThreadKind, lock, park, spawn_thread, unpark};
use crate::util::notifiers::Job;
use std::ptr;
use std::time::Duration;

struct WatchState {
    detector: StallDetector,
    awake: AwakeWatch,
    driven: DrivenWatch,
    places: Vec<At>,
    threads: Vec<ThreadSample>,
    orders: Vec<Order>,
    /// For each thread, the stall that was reported and has not ended.
    open: Vec<Option<Stall>>,
}

impl Scheduler {
    pub(crate) fn start_watchdog(&'static self) -> std::io::Result<()> {
        let mut watchdog = lock(&self.watchdog.thread);
        if watchdog.is_none() {
            let name = format!("{}-watchdog", self.config.name);
            let thread = spawn_thread(ThreadKind::Watchdog, name, move || self.look_on())?;
            *watchdog = Some(thread.thread().clone());
            self.keep_thread(StartedThread::of_thread(thread, None));
        }
        Ok(())
    }

    fn look_on(&'static self) {
        crate::util::panics::contain_thread();
        crate::sync::prepare_barriers();
        let detector = StallDetector::new(self.config.stall_limit);
        let mut state = WatchState {
            detector,
            awake: AwakeWatch::new(self.permits.len()),
            driven: DrivenWatch::default(),
            places: Vec::new(),
            threads: Vec::new(),
            orders: Vec::new(),
            open: Vec::new(),
        };
        let tick = tick_of(self.config.stall_limit);
        while !self.is_stopped() {
            let now = Moment::now_by(None);
            match self.look(&mut state, now) {
                RestUntil::Tick => self.stay(now.after(tick), || true),
                RestUntil::Calm(longest) => {
                    if self.idle.rest_watchdog() {
                        let longest = self.driven.limit_rest(&mut state.driven, longest, || self.idle.rises());
                        self.rest(longest.map_or(Moment::NEVER, |longest| now.after(longest)));
                        self.driven.rest_is_over();
                        state.awake.rested();
                    }
                }
            }
        }
    }

    /// Frees blocks of memory, then parks until `until`, or until another thread ends the rest.
    fn rest(&self, until: Moment) {
        while self.idle.does_watchdog_rest() && large_blocks::release() {}
        self.stay(until, || self.idle.does_watchdog_rest());
        // True if the time was up; otherwise another thread has ended the rest.
        let _rested = self.idle.end_watchdog_rest();
    }

    /// Parks until `until`, until `rests` returns false, or until the host stops.
    fn stay(&self, until: Moment, rests: impl Fn() -> bool) {
        loop {
            let rest = until.since(Moment::now_by(None));
            if rest.is_zero() || !rests() || self.is_stopped() {
                return;
            }
            park((until < Moment::NEVER).then_some(rest));
        }
    }

    /// Performs G1 to G5: wakes the watchdog if it rests.
    #[inline]
    pub(crate) fn notify_watchdog(&self) {
        if self.idle.does_watchdog_rest() {
            self.wake_watchdog();
        }
    }

    /// Wakes the watchdog, which takes a sample at once.
    #[cold]
    pub(crate) fn wake_watchdog(&self) {
        let _rested = self.idle.end_watchdog_rest();
        if let Some(thread) = &*lock(&self.watchdog.thread) {
            unpark(thread);
        }
    }

    /// Performs a tick. Returns when the next one is due.
    fn look(&'static self, state: &mut WatchState, now: Moment) -> RestUntil {
        let counts = self.idle.sample(&mut state.places);
        state.threads.clear();
        for (number, thread) in self.threads_in_use() {
            let at = state.places.get(number).copied().unwrap_or(At::Free);
            // A blocked thread runs nothing.
            let step = thread.step().filter(|_| matches!(at, At::Up(_) | At::Detached));
            if step.is_some() && thread.running().is_some() {
                // K3.
                thread.tick();
            }
            state.threads.resize(number, ThreadSample::default());
            let begun = step.and_then(|step| thread.begun_unwatched(step.steps));
            let has_permit = matches!(at, At::Up(_));
            let has_local = thread.local.has_work();
            let keeps_idle = thread.local.has_vacant() || thread.local.has_table();
            state.threads.push(ThreadSample { step, begun, has_permit, has_local, keeps_idle });
        }
        let is_due = self.next_timer() <= now;
        self.limit_awake(&mut state.awake, now, &state.threads, (&state.places, counts));
        if counts.sleeping > 0 && (is_due || self.has_work()) {
            // K2.
            self.announce();
        }
        let waiting = state.places.iter().filter(|&&at| at == At::Waiting).count();
        let queued = state.awake.queued() + self.late_slots.len() + usize::from(is_due) + waiting;
        let steps = self.threads.first(usize::MAX).map(|(_, thread)| thread.counters.steps.get()).sum();
        let sample =
            HostSample { now, threads: &state.threads, queued, steps, idle: counts.idle, all_idle: counts.all_idle };
        let rest = state.detector.look(sample, &mut state.orders);
        // K4.
        self.carry_out(&state.orders, &mut state.open);
        state.orders.clear();
        self.tend_reactor();
        self.driven.look(&mut state.driven);
        self.watchdog.ticks.add(1);
        rest
    }

    /// Executes the orders. Describes stalls first, since the step may end while an order is executed. Reports them
    /// last, so that a report says whether the permit was taken over.
    fn carry_out(&'static self, orders: &[Order], open: &mut Vec<Option<Stall>>) {
        let reports = orders.iter().filter_map(|order| match order {
            Order::Report(thread, lasted) => Some((*thread, *lasted)),
            _ => None,
        });
        for (thread, lasted) in reports.clone() {
            open.resize(open.len().max(thread + 1), None);
            open[thread] = self.stall(thread, lasted);
            if open[thread].is_none() {
                self.report_visit(thread, lasted);
            }
        }
        for order in orders {
            match *order {
                Order::Move(thread) => {
                    if self.threads.get(thread).is_some_and(|record| self.move_local(record, thread)) {
                        self.watchdog.moved.add(1);
                    }
                }
                Order::TakeOver(thread) if self.take_over(thread) => {
                    self.watchdog.taken_over.add(1);
                    self.note_taken_over(open.get_mut(thread).and_then(Option::as_mut));
                }
                Order::TakeOver(_) | Order::Report(..) => {}
                Order::Ended(thread, lasted) => {
                    if let Some(stall) = open.get_mut(thread).and_then(Option::take) {
                        self.tell_of(&Stall { lasted, is_over: true, ..stall });
                    }
                }
            }
        }
        for (thread, _) in reports {
            if let Some(stall) = &open[thread] {
                self.watchdog.stalls.add(1);
                self.tell_of(stall);
                self.record_stall(stall, thread);
            }
        }
    }

    /// Logs a warning if something other than a step is taking a long time on a thread: a task of the reactor, or the
    /// action of a timer.
    fn report_visit(&'static self, thread: usize, lasted: Duration) {
        if !self.threads.get(thread).is_some_and(|thread| thread.is_visiting()) {
            return;
        }
        self.report(|| {
            let host = self.config.name.clone();
            Box::new(move || {
                crate::util::log::warn!(?lasted, %host, "a task of the reactor, or the action of a timer, has stalled: \
                    others wait");
            })
        });
    }

    fn note_taken_over(&'static self, stall: Option<&mut Stall>) {
        let Some(stall) = stall else { return };
        stall.taken_over = true;
        if self.recorder.is_on() {
            self.recorder.note(RecordKind::TakeOver, stall.pid.incarnation(), 0, None);
        }
    }

    /// Describes the step that the thread is in. Returns `None` if that step has ended.
    fn stall(&'static self, thread: usize, lasted: Duration) -> Option<Stall> {
        let record = self.threads.get(thread)?;
        let slot = record.running()?;
        let pid = slot.resident()?;
        let (process, entry) = slot.metadata.names()?;
        let message = record.slice.message();
        crate::sync::fence(Ordering::Acquire);
        let is_same = slot.resident() == Some(pid) && record.running().is_some_and(|now| ptr::eq(now, slot));
        let taken_over = !matches!(self.idle.at(thread), At::Up(_));
        is_same.then_some(Stall { pid, process, entry, message, lasted, taken_over, is_over: false })
    }

    fn record_stall(&'static self, stall: &Stall, thread: usize) {
        if self.recorder.is_on() {
            let lasted = stall.lasted.as_nanos() as u64;
            // Omits the name if the thread has moved on to another message type in the meantime.
            let name = self.threads.get(thread).and_then(|record| record.slice.message_type());
            let name = name.filter(|name| Some(name()) == stall.message);
            self.recorder.note(RecordKind::Stall, stall.pid.incarnation(), lasted, name);
            self.recorder.dump(DumpCause::Stalled(stall.pid));
        }
    }

    fn tell_of(&'static self, stall: &Stall) {
        let (label, stall) = (self.label(stall.pid), stall.clone());
        if self.incidents.is_watched() {
            self.incidents.stalled(KeptStall { at: instant_now(), label: label.clone(), stall: stall.clone() });
        }
        self.report(|| {
            let user = self.user();
            Box::new(move || {
                log(label.as_deref(), &stall);
                if let Some(user) = user {
                    user.hooks.stall(&stall);
                }
            })
        });
    }

    /// Has a notifier make a report, after all earlier ones: a hook or a log subscriber that blocks must not delay the
    /// samples. If [`REPORTS`] reports are already queued, this one is dropped.
    fn report(&'static self, make: impl FnOnce() -> Job) {
        self.watchdog.reports.push(REPORTS, make);
    }
}

/// Maximum number of reports that may be queued behind a hook that blocks. A guess.
const REPORTS: usize = 256;

fn log(label: Option<&str>, stall: &Stall) {
    let Stall { pid, process, entry, message: message_type, lasted, taken_over, is_over } = stall;
    if *is_over {
        crate::util::log::warn!(
            %pid, process, entry, label, message_type, ?lasted, taken_over,
            "a stalled step has ended"
        );
    } else {
        crate::util::log::warn!(
            %pid, process, entry, label, message_type, ?lasted, taken_over,
            "a step has stalled: others wait"
        );
    }
}
