//! Permits without threads of their own: those of a host whose processes run on the threads of another library.
//!
//! Each permit is a task of that library. A thread that polls the task *drives* the permit: it does what a thread of
//! the host does in its [run loop](super::run_loop), until the permit rests, or for a [limited time](MOST). Then the
//! thread belongs to its own tasks again. So no thread has to be woken between a task that calls a process and that
//! process: both run on the same threads.
//!
//! What a thread of the host has on its stack (its context, its storage for steps, and what it was about to do) is in
//! the [`DrivenPermit`]; what it has in thread-locals is set for the time of a drive (`launch`). The record of the
//! thread is used as always: it can become spare, have a step that blocks or is stuck, and end. `driver_state` shows
//! that a permit has one driver at a time and that no call is missed.
//!
//! # A permit is always driven
//!
//! Nothing here relies on the library to poll the task soon, or ever. Its threads may all be in tasks that block, and
//! its runtime may be idle, or over.
//! * *Late*: at a tick, the watchdog has a thread of the host's own drive each permit that has been called and that no
//!   thread has driven for a few ticks. That thread *helps out*: it is notified in place of the task until the task
//!   is polled again.
//! * *Dropped*: if the task is dropped before the permit has ended, a thread helps out at once, and nothing replaces
//!   it.
//! * *Rest*: while the watchdog rests, permits may be called. So on such a host it first *dozes*: it looks every 50 ms,
//!   and then rests only if no thread has woken since. A thread that calls a permit ends a rest, but not a doze. (A
//!   call from a task to an idle host would otherwise wake the watchdog each time.) The watchdog announces that it
//!   rests, and then looks at all permits once more; a thread calls, and then looks whether the watchdog rests. All
//!   four are sequentially consistent, so one of the two sees the other.
//! * *Inside*: a process may run the library's runtime in a step, in its start or in its end. The thread-locals of the
//!   thread are then those of that step. So such a thread does not drive, and another one helps out.

use super::launch::is_of_a_host;
use super::run_loop::Next;
use super::spare::Rest;
use crate::call::caller::is_ending;
use crate::engine::context::own::starting;
use crate::engine::context::thread::ThreadContext;
use crate::engine::host::Scheduler;
use crate::engine::io::reactor::{PermitTask, TaskPoll};
use crate::engine::slice::scratch::StepScratch;
use crate::engine::workers::driven::Driven;
use crate::engine::workers::driver_state::{Called, DriverState};
use crate::engine::workers::help::Help;
use crate::engine::workers::threads::StartedThread;
use crate::engine::workers::worker::RECORDED;
use crate::env::clock::{Moment, forget_now, instant_now};
use crate::recorder::kind::RecordKind;
use crate::sync::{
    Arc, AtomicU64, Mutex, OnceLock, Ordering, OwnedCell, ThreadHandle, ThreadKind, Weak, current_thread, lock, park,
    spawn_thread_with, unpark,
};
use crate::util::notifiers;
use crate::util::thread_bound::this_thread;
use std::io;
use std::task::{Wake, Waker};
use std::time::Duration;

/// How long a thread drives a permit before it returns to its tasks; it finishes the time slice that it is in. A guess:
/// short for a task that waits, and long compared with the cost of a poll.
const MOST: Duration = Duration::from_micros(200);

pub(crate) struct DrivenPermit {
    #[cfg_attr(not(feature = "tokio"), allow(dead_code, reason = "only tasks of Tokio read it; Rust 1.91 warns"))]
    me: Weak<Self>,
    host: &'static Scheduler,
    /// The index of the record.
    index: usize,
    state: Arc<DriverState>,
    /// Belongs to the driver. `None` before the first drive and after the last.
    seat: OwnedCell<Option<Box<PermitSeat>>>,
    /// When the permit must be driven although it has not been called, as of the last drive, in nanoseconds.
    until: AtomicU64,
    /// Woken for a call, unless a thread helps out. Set by the first poll.
    task: OnceLock<Waker>,
    help: Help<ThreadHandle>,
    /// The number of the thread that drives, or drove last.
    last_driver: AtomicU64,
    /// That thread, to unpark it: it may wait on its stack.
    driver: Mutex<Option<ThreadHandle>>,
    /// Number of drives.
    drives: AtomicU64,
}

// SAFETY: the seat, which alone is neither `Send` nor `Sync`, is used by one driver at a time, and what a driver has
// written is visible to the next one (*begin* and *rest* in `driver_state`). It refers to nothing that belongs to a
// thread: what does is set for each drive (`lend_thread`).
unsafe impl Send for DrivenPermit {}
// SAFETY: as above.
unsafe impl Sync for DrivenPermit {}

/// Where a driver sits: what a thread of the host has on its stack.
struct PermitSeat {
    context: ThreadContext,
    scratch: StepScratch,
    then: Then,
}

enum Then {
    Search,
    /// Carry this out, for which there was no time. A process is not queued for others, since the thread may keep an
    /// answer for it (`thread_cache`).
    Begin(Next),
    Resume(Rest),
}

/// Why a drive has ended.
enum DriveEnd {
    Rests,
    /// The time was up, or another thread drives.
    Stopped,
    Ended,
}

impl DrivenPermit {
    fn call(&self) {
        match self.state.call() {
            Called::AtRest => {
                self.end_rest();
                self.notify();
            }
            Called::Driven => lock(&self.driver).iter().for_each(unpark),
            Called::Before => {}
        }
    }

    /// Performs *rest*, for a call.
    fn end_rest(&self) {
        if self.host.driven.does_watchdog_rest() {
            self.host.wake_watchdog();
        }
    }

    /// Notifies the thread that helps out, or else the task.
    fn notify(&self) {
        if !self.help.notify(unpark) {
            self.wake_task();
        }
    }

    fn wake_task(&self) {
        self.task.get().into_iter().for_each(Waker::wake_by_ref);
    }

    /// Ends the help, if there is any.
    fn relieve(&self) {
        self.help.relieve().iter().for_each(unpark);
    }

    fn note_driver(&self) {
        self.drives.store(self.drives.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.until.store(Moment::NEVER.nanoseconds(), Ordering::Relaxed);
        // Only the driver writes this.
        if self.last_driver.load(Ordering::Relaxed) != this_thread() {
            self.last_driver.store(this_thread(), Ordering::Relaxed);
            *lock(&self.driver) = Some(current_thread());
        }
    }

    /// Drives the permit, unless another thread does. `is_task` tells whether the caller is a task.
    fn drive(&self, is_task: bool) -> DriveEnd {
        if !self.state.begin() {
            return if self.state.has_ended() { DriveEnd::Ended } else { DriveEnd::Stopped };
        }
        self.note_driver();
        // If the thread has slept, this may lie in the past; the drive then ends after one time slice.
        let until = Moment::about_now().after(MOST);
        loop {
            // SAFETY: the calling thread is the driver, and there is only one (*begin* in `driver_state`).
            let drive = self.seat.with_mut(|seat| self.drive_from(unsafe { &mut *seat }, is_task, until));
            match drive {
                DriveEnd::Rests if self.state.rest() => {}
                DriveEnd::Rests if Moment::about_now() < until => continue,
                DriveEnd::Rests | DriveEnd::Stopped => {
                    self.state.stop();
                    // *Rest*, for calls during the drive.
                    self.end_rest();
                    return DriveEnd::Stopped;
                }
                DriveEnd::Ended => {
                    self.state.end();
                    self.relieve();
                    self.wake_task();
                }
            }
            return drive;
        }
    }

    fn drive_from(&self, place: &mut Option<Box<PermitSeat>>, is_task: bool, until: Moment) -> DriveEnd {
        let seat = match place {
            Some(seat) => seat,
            None => match self.take_seat() {
                Some(seat) => place.insert(seat),
                None => return DriveEnd::Ended,
            },
        };
        let PermitSeat { context, scratch, then } = &mut **seat;
        context.has_tasks_of_reactor.set(is_task);
        let mut drive = DriveEnd::Ended;
        self.host.lend_thread(context, |context| drive = self.run(context, scratch, then, until));
        if let DriveEnd::Ended = drive
            && let Some(seat) = place.take()
        {
            seat.context.thread.vacate(seat.context.deque);
            self.host.idle.dismiss(self.index);
            self.host.wake_blocked_steps();
        }
        drive
    }

    fn take_seat(&self) -> Option<Box<PermitSeat>> {
        let host = self.host;
        let thread = host.threads.get(self.index)?;
        let deque = thread.occupy(host)?;
        let user = host.user().unwrap_or_default();
        let permit = host.idle.with_permits(|permits| permits.permit(self.index));
        let mut context = ThreadContext::new(host, user, (self.index, thread), permit, deque);
        context.is_driven = true;
        if host.recorder.is_on() {
            thread.call(RECORDED);
        }
        Some(Box::new(PermitSeat { context, scratch: StepScratch::new(thread), then: Then::Search }))
    }

    /// Runs processes until the permit rests or ends, or the time is up.
    fn run(&self, context: &ThreadContext, scratch: &mut StepScratch, then: &mut Then, until: Moment) -> DriveEnd {
        forget_now();
        let begin = || match std::mem::replace(then, Then::Search) {
            Then::Search => context.next(),
            Then::Begin(next) => next,
            Then::Resume(rest) => {
                context.note(RecordKind::Wake);
                context.resume(rest)
            }
        };
        match context.run_while(scratch, begin, || Moment::about_now() < until) {
            next @ (Next::Run(_) | Next::RunTimed(_) | Next::Recorded(_)) => {
                // The next driver has a ring of its own.
                context.write_slice_end();
                *then = Then::Begin(next);
                DriveEnd::Stopped
            }
            Next::Exit(_) => DriveEnd::Ended,
            Next::Park(rest) => {
                context.note(RecordKind::Park);
                let until = rest.patience().map_or(Moment::NEVER, |patience| Moment::now_by(None).after(patience));
                self.until.store(until.nanoseconds(), Ordering::Relaxed);
                *then = Then::Resume(rest);
                DriveEnd::Rests
            }
        }
    }

    /// Starts a thread that helps out, unless there is one. Returns whether it has started one.
    fn start_helper(self: Arc<Self>) -> bool {
        let (host, permit) = (self.host, self.clone());
        let mut started = None;
        let begun = self.help.begin(
            || self.state.has_ended(),
            || {
                let name = format!("{}-{}", host.config.name, self.index);
                let thread = spawn_thread_with(ThreadKind::Worker, name, host.config.stack, move || permit.help())?;
                let handle = thread.thread().clone();
                started = Some(thread);
                Ok(handle)
            },
        );
        if let Some(thread) = started {
            host.keep_thread(StartedThread::of_thread(thread, host.threads.get(self.index)));
        }
        let Some(Err(error)) = begun else { return begun.is_some() };
        // It tries again.
        host.wake_watchdog();
        notifiers::run(move || {
            let error: io::Error = error;
            crate::util::log::error!(%error, host = %host.config.name, "no thread could be started for a task that is \
                not polled: it is tried again");
        });
        false
    }

    /// Drives the permit until its task is polled again, or for good.
    fn help(self: Arc<Self>) {
        let user = self.host.user().unwrap_or_default();
        user.within(|| {
            let is_asked = || self.help.is_by(|helper| helper.id() == current_thread().id());
            // Checked right before each park: a step of the drive may have parked, too, and consumed the unpark.
            while is_asked() {
                match self.patience() {
                    // No thread relieves this one if the permit ended while this one was being started.
                    _ if self.state.has_ended() => return,
                    _ if self.state.waits() => {}
                    Some(Duration::ZERO) => self.call(),
                    patience => {
                        park(patience);
                        continue;
                    }
                }
                if let DriveEnd::Ended = self.drive(false) {
                    return;
                }
            }
        });
        // The task waits for its own timer only. There is another helper if the task has been dropped.
        self.wake_task();
        self.help.notify_next(unpark);
    }

    /// Returns how long the permit rests unless it is called.
    fn patience(&self) -> Option<Duration> {
        let until = Moment::of_nanoseconds(self.until.load(Ordering::Relaxed));
        (until < Moment::NEVER).then(|| until.since(Moment::now_by(None)))
    }
}

impl Wake for DrivenPermit {
    fn wake(self: Arc<Self>) {
        self.call();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.call();
    }
}

impl PermitTask for DrivenPermit {
    fn poll(&self, waker: &Waker) -> TaskPoll {
        // All wakers of a task wake it.
        self.task.get_or_init(|| waker.clone());
        if self.state.has_ended() {
            return TaskPoll::Over;
        }
        if is_of_a_host() || starting().is_some() || is_ending() {
            // *Inside*.
            self.me.upgrade().into_iter().for_each(|this| _ = this.start_helper());
            return TaskPoll::Rests(None);
        }
        self.relieve();
        if self.patience() == Some(Duration::ZERO) {
            // The time is up, and this thread is the one to notify.
            let _called = self.state.call();
        }
        match self.drive(true) {
            DriveEnd::Ended => TaskPoll::Over,
            DriveEnd::Stopped if self.state.waits() => TaskPoll::Again,
            DriveEnd::Stopped | DriveEnd::Rests => {
                TaskPoll::Rests(self.patience().and_then(|patience| instant_now().checked_add(patience)))
            }
        }
    }

    fn leave(self: Arc<Self>) {
        self.call();
        self.help_out();
    }
}

impl Driven for DrivenPermit {
    fn waits(&self) -> bool {
        self.state.waits()
    }

    fn drives(&self) -> u64 {
        self.drives.load(Ordering::Relaxed)
    }

    /// Performs *late* and *dropped*.
    fn help_out(self: Arc<Self>) {
        if self.clone().start_helper() {
            self.wake_task();
        }
    }

    fn has_ended(&self) -> bool {
        self.state.has_ended()
    }
}

impl Scheduler {
    /// Has permit `permit` driven by a task of the host's reactor. Returns false if the host has threads of its own.
    pub(super) fn start_task(&'static self, permit: usize) -> bool {
        let Some(user) = self.user() else { return false };
        let Some(tasks) = user.tasks() else { return false };
        let index = self.idle.begin(Some(permit));
        let Some(thread) = self.threads.make(index) else {
            self.idle.dismiss(index);
            return false;
        };
        let driven = Arc::new_cyclic(|me| DrivenPermit {
            me: me.clone(),
            host: self,
            index,
            state: Arc::new(DriverState::called()),
            seat: OwnedCell::new(None),
            until: AtomicU64::new(Moment::NEVER.nanoseconds()),
            task: OnceLock::new(),
            help: Help::new(),
            last_driver: AtomicU64::new(0),
            driver: Mutex::default(),
            drives: AtomicU64::new(0),
        });
        thread.is_driven_by(Waker::from(driven.clone()));
        self.idle.with_permits(|permits| permits.set_driven(index));
        self.driven.add(driven.clone());
        self.keep_thread(StartedThread::of_task(driven.state.clone(), thread));
        tasks.spawn(driven);
        true
    }
}
