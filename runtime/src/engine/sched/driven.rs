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
//! * U1 At a tick, the watchdog has a thread of the host's own drive each permit that has been called and that no
//!   thread has driven for a few ticks. That thread *helps out*: it is notified in place of the task until the task
//!   is polled again.
//! * U2 If the task is dropped before the permit has ended, a thread helps out at once, and nothing replaces it.
//! * U3 While the watchdog rests, permits may be called. So on such a host it first *dozes*: it looks every 50 ms,
//!   and then rests only if no thread has woken since. A thread that calls a permit ends a rest, but not a doze. (A call
//!   from a task to an idle host would otherwise wake the watchdog each time.) The watchdog announces that it rests, and
//!   then looks at all permits once more; a thread calls, and then looks whether the watchdog rests. All four are
//!   sequentially consistent, so one of the two sees the other.
//! * U4 A thread of a host may poll the task, too: a process may run the library's runtime in a step. The thread-locals
//!   of such a thread are those of that step. So it does not drive, and a thread helps out.

use super::launch::is_of_a_host;
use super::run_loop::Stop;
use super::spare::Rest;
use crate::engine::context::thread::ThreadContext;
use crate::engine::host::Scheduler;
use crate::engine::io::reactor::{PermitTask, TaskPoll};
use crate::engine::slice::scratch::StepScratch;
use crate::engine::workers::driven::Driven;
use crate::engine::workers::driver_state::{Called, DriverState};
use crate::engine::workers::threads::StartedThread;
use crate::engine::workers::worker::RECORDED;
use crate::env::clock::{Moment, forget_now, instant_now};
use crate::recorder::kind::RecordKind;
use crate::sync::{
    Arc, AtomicBool, AtomicU64, Mutex, OnceLock, Ordering, OwnedCell, ThreadHandle, ThreadKind, Weak, current_thread,
    lock, park, spawn_thread_with, unpark,
};
use crate::util::notifiers;
use crate::util::thread_bound::this_thread;
use std::cell::Cell;
use std::task::{Wake, Waker};
use std::time::Duration;

/// How long a thread drives a permit before it returns to its tasks. The current time slice ends first, which takes a
/// tick more at most. A guess: short for a task that waits, and long compared with the cost of a poll.
const MOST: Duration = Duration::from_micros(200);

/// Number of time slices for each reading of the clock.
const UNTIMED: u32 = 4;

pub(crate) struct DrivenPermit {
    me: Weak<Self>,
    host: &'static Scheduler,
    /// The index of the record.
    index: usize,
    state: Arc<DriverState>,
    /// Belongs to the driver. `None` before the first drive and after the last.
    seat: OwnedCell<Option<Box<Seat>>>,
    /// When the permit must be driven although it has not been called, as of the last drive, in nanoseconds.
    until: AtomicU64,
    /// Woken for a call, unless a thread helps out. Set by the first poll.
    task: OnceLock<Waker>,
    helper: Mutex<Option<ThreadHandle>>,
    /// Whether there is a helper. Written under its lock.
    is_helped: AtomicBool,
    driver: Mutex<PermitDriver>,
    /// Number of drives.
    drives: AtomicU64,
}

// SAFETY: the seat, which alone is neither `Send` nor `Sync`, is used by one driver at a time, and what a driver has
// written is visible to the next one (V2 and V3 in `driver_state`). It refers to nothing that belongs to a thread: what
// does is set for each drive (`lend_thread`).
unsafe impl Send for DrivenPermit {}
// SAFETY: as above.
unsafe impl Sync for DrivenPermit {}

/// Where a driver sits: what a thread of the host has on its stack.
struct Seat {
    context: ThreadContext,
    scratch: StepScratch,
    then: Then,
}

enum Then {
    Search,
    Resume(Rest),
}

/// The thread that drives, or drove last, and its number. It may wait on its stack.
#[derive(Default)]
struct PermitDriver {
    number: u64,
    thread: Option<ThreadHandle>,
}

/// Why a drive has ended.
enum Drive {
    Rests,
    /// The time was up, or another thread drives.
    Stopped,
    Ended,
}

impl DrivenPermit {
    fn call(&self) {
        match self.state.call() {
            Called::AtRest => {
                // U3.
                if self.host.driven.does_watchdog_rest() {
                    self.host.wake_watchdog();
                }
                self.notify();
            }
            Called::Driven => lock(&self.driver).thread.iter().for_each(unpark),
            Called::Before => {}
        }
    }

    /// Notifies the thread that helps out, or else the task. (A thread that begins to help out looks for a call
    /// afterwards, so that it misses none that has notified the task.)
    fn notify(&self) {
        if self.is_helped.load(Ordering::SeqCst)
            && let Some(helper) = &*lock(&self.helper)
        {
            return unpark(helper);
        }
        self.task.get().into_iter().for_each(Waker::wake_by_ref);
    }

    /// Ends the help, if there is any.
    fn relieve(&self) {
        if self.is_helped.load(Ordering::SeqCst) {
            let mut helper = lock(&self.helper);
            self.is_helped.store(false, Ordering::SeqCst);
            helper.take().iter().for_each(unpark);
        }
    }

    fn note_driver(&self) {
        self.drives.store(self.drives.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let mut driver = lock(&self.driver);
        if driver.number != this_thread() {
            *driver = PermitDriver { number: this_thread(), thread: Some(current_thread()) };
        }
    }

    fn drive(&self) -> Drive {
        if !self.state.begin() {
            return if self.state.has_ended() { Drive::Ended } else { Drive::Stopped };
        }
        self.note_driver();
        let budget = Budget::default();
        loop {
            // SAFETY: the calling thread is the driver, and there is only one (V2).
            let drive = self.seat.with_mut(|seat| self.drive_from(unsafe { &mut *seat }, &budget));
            match drive {
                Drive::Rests if self.state.rest() => {}
                Drive::Rests if budget.is_left() => continue,
                Drive::Rests | Drive::Stopped => {
                    self.state.stop();
                    return Drive::Stopped;
                }
                Drive::Ended => {
                    self.state.end();
                    self.relieve();
                    self.task.get().into_iter().for_each(Waker::wake_by_ref);
                }
            }
            return drive;
        }
    }

    fn drive_from(&self, place: &mut Option<Box<Seat>>, budget: &Budget) -> Drive {
        let seat = match place {
            Some(seat) => seat,
            None => match self.take_seat() {
                Some(seat) => place.insert(seat),
                None => return Drive::Ended,
            },
        };
        let Seat { context, scratch, then } = &mut **seat;
        let mut drive = Drive::Ended;
        self.host.lend_thread(context, |context| drive = self.run(context, scratch, then, budget));
        if let Drive::Ended = drive
            && let Some(seat) = place.take()
        {
            seat.context.thread.vacate(seat.context.deque);
            self.host.idle.dismiss(self.index);
            self.host.wake_blocked_steps();
        }
        drive
    }

    fn take_seat(&self) -> Option<Box<Seat>> {
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
        Some(Box::new(Seat { context, scratch: StepScratch::new(thread), then: Then::Search }))
    }

    /// Runs processes until the permit rests or ends, or the time is up.
    fn run(&self, context: &ThreadContext, scratch: &mut StepScratch, then: &mut Then, budget: &Budget) -> Drive {
        forget_now();
        let next = match std::mem::replace(then, Then::Search) {
            Then::Search => context.next(),
            Then::Resume(rest) => {
                context.note(RecordKind::Wake);
                context.resume(rest)
            }
        };
        match context.run_until_parked(scratch, next, || budget.is_left()) {
            None => {
                // The next driver has a ring of its own.
                context.write_slice_end();
                Drive::Stopped
            }
            Some(Stop::Exit(_)) => Drive::Ended,
            Some(Stop::Park(rest)) => {
                context.note(RecordKind::Park);
                let until = rest.patience().map_or(Moment::NEVER, |patience| Moment::now_by(None).after(patience));
                self.until.store(until.nanoseconds(), Ordering::Relaxed);
                *then = Then::Resume(rest);
                Drive::Rests
            }
        }
    }

    /// Drives the permit until its task is polled again, or for good.
    fn help(self: Arc<Self>) {
        let user = self.host.user().unwrap_or_default();
        user.within(|| {
            let is_asked = || {
                let helper = lock(&self.helper).as_ref().map(|helper| helper.id());
                helper == Some(current_thread().id())
            };
            // Checked right before each park: a step of the drive may have parked, too, and consumed the unpark.
            while is_asked() {
                match self.patience() {
                    _ if self.state.waits() => {}
                    Some(Duration::ZERO) => self.call(),
                    patience => {
                        park(patience);
                        continue;
                    }
                }
                if let Drive::Ended = self.drive() {
                    return;
                }
            }
        });
        // The task waits for its own timer only.
        self.task.get().into_iter().for_each(Waker::wake_by_ref);
    }

    /// Returns how long the permit rests unless it is called.
    fn patience(&self) -> Option<Duration> {
        let until = Moment::of_nanoseconds(self.until.load(Ordering::Relaxed));
        (until < Moment::NEVER).then(|| until.since(Moment::now_by(None)))
    }
}

/// What is left of a drive.
#[derive(Default)]
struct Budget {
    slices: Cell<u32>,
    until: Cell<Option<Moment>>,
}

impl Budget {
    /// Counts a time slice. Returns whether another one may follow.
    fn is_left(&self) -> bool {
        let slices = self.slices.get() + 1;
        self.slices.set(slices);
        if !slices.is_multiple_of(UNTIMED) {
            return true;
        }
        let now = Moment::now_by(None);
        let until = self.until.get().unwrap_or(now.after(MOST));
        self.until.set(Some(until));
        now < until
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
        if is_of_a_host() {
            // U4.
            self.me.upgrade().into_iter().for_each(Driven::help_out);
            return TaskPoll::Rests(None);
        }
        self.relieve();
        match self.drive() {
            Drive::Ended => TaskPoll::Over,
            Drive::Stopped if self.state.waits() => TaskPoll::Again,
            Drive::Stopped | Drive::Rests => {
                TaskPoll::Rests(self.patience().and_then(|patience| instant_now().checked_add(patience)))
            }
        }
    }

    fn time_is_up(&self) {
        self.call();
    }

    fn leave(self: Arc<Self>) {
        let _called = self.state.call();
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

    /// Performs U1, U2 and U4, unless a thread helps out already.
    fn help_out(self: Arc<Self>) {
        let mut helper = lock(&self.helper);
        if helper.is_some() || self.state.has_ended() {
            return;
        }
        let (host, permit) = (self.host, self.clone());
        let name = format!("{}-{}", host.config.name, self.index);
        match spawn_thread_with(ThreadKind::Worker, name, host.config.stack, move || permit.help()) {
            Ok(thread) => {
                *helper = Some(thread.thread().clone());
                self.is_helped.store(true, Ordering::SeqCst);
                drop(helper);
                host.keep_thread(StartedThread::of_thread(thread, host.threads.get(self.index)));
            }
            Err(error) => notifiers::run(move || {
                crate::util::log::error!(%error, host = %host.config.name, "no thread could be started for a task that \
                    is not polled: it is tried again");
            }),
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
            helper: Mutex::new(None),
            is_helped: AtomicBool::new(false),
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
