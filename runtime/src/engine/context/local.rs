//! What is a thread's own, and how a thread finds it again from wherever its processes call.
//!
//! It belongs to one thread of the system for that thread's life. Which permit the thread holds changes (`handoff`): it
//! may lose it in the middle of a step without knowing, so nothing here may rest on being the only one with that
//! permit.

use crate::call::caller::Caller;
use crate::engine::host::gate::TallyLane;
use crate::engine::host::{Scheduler, UserCode};
use crate::engine::workers::permit::Permit;
use crate::engine::workers::pinned::PinnedThread;
use crate::engine::workers::worker::{LOST, UNWATCHED, Worker};
use crate::env::chance::Random;
use crate::env::clock::{Moment, TimerKey};
use crate::mailbox::payload::Payload;
use crate::pid::{Pid, Resident};
use crate::slots::Token;
use crate::sync::{Arc, Deque};
use crate::time::timers::TimerAction;
use crate::util::defer::defer;
use std::cell::{Cell, RefCell};
use std::ptr;

/// What is a thread's own.
pub(crate) struct ThreadContext {
    pub(crate) host: &'static Scheduler,
    /// The users' own code.
    pub(crate) user: Arc<UserCode>,
    /// Which of the host's threads this is.
    pub(crate) index: usize,
    /// What all may see of it.
    pub(crate) thread: &'static Worker,
    /// Which of the host's permits it holds, or held last.
    pub(crate) permit_index: Cell<usize>,
    pub(crate) permit: Cell<&'static Permit>,
    /// The thread that it got its permit from, which may have left something behind.
    pub(crate) behind: Cell<Option<usize>>,
    /// Whether it has not had a permit yet.
    pub(crate) is_new: Cell<bool>,
    /// That of the pinned process, if the thread is one's own: it has no permit then, and no number.
    pub(crate) pinned_thread: Option<&'static PinnedThread>,
    pub(crate) deque: Deque<Token>,
    /// How many steps the thread had run when a far end came first for the last time.
    pub(crate) fair: Cell<u64>,
    pub(crate) visits: Cell<u32>,
    /// How many steps in a row came from the run-next slot.
    pub(crate) streak: Cell<u32>,
    pub(crate) random: RefCell<Random>,
    /// When this thread last saw a process with a deficit.
    pub(crate) debtor_seen: Cell<Moment>,
    /// When a process had used its time slice here last.
    pub(crate) turn_used: Cell<Moment>,
}

thread_local! {
    static CURRENT: Cell<*const ThreadContext> = const { Cell::new(ptr::null()) };
}

/// Runs `body` with the calling thread's context, if it is a thread of a host.
#[inline]
pub(crate) fn with_current<R>(body: impl FnOnce(Option<&ThreadContext>) -> R) -> R {
    let current = CURRENT.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: not null only inside `ThreadContext::enter` and outside of `ThreadContext::step_out`, during which the
    // context is borrowed and this thread is its only user.
    body(unsafe { current.as_ref() })
}

/// The process whose step the calling thread runs.
pub(crate) fn current_pid() -> Option<Pid> {
    with_current(|context| context?.pid())
}

impl ThreadContext {
    /// That of a thread with this number and record, which begins with that permit or without one.
    pub(crate) fn new(
        host: &'static Scheduler,
        user: Arc<UserCode>,
        (index, thread): (usize, &'static Worker),
        permit: Option<usize>,
        deque: Deque<Token>,
    ) -> Self {
        Self {
            host,
            user,
            index,
            thread,
            permit_index: Cell::new(permit.unwrap_or(0)),
            permit: Cell::new(&host.permits[permit.unwrap_or(0)]),
            behind: Cell::new(None),
            is_new: Cell::new(permit.is_none()),
            pinned_thread: None,
            deque,
            fair: Cell::new(0),
            visits: Cell::new(0),
            debtor_seen: Cell::new(Moment::about_now()),
            turn_used: Cell::new(Moment::about_now()),
            streak: Cell::new(0),
            random: RefCell::new(Random::new(host.seed(), index as u64)),
        }
    }

    /// Runs `body` with this as the calling thread's context.
    pub(crate) fn enter<R>(&self, body: impl FnOnce(&Self) -> R) -> R {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                CURRENT.set(ptr::null());
            }
        }
        CURRENT.set(ptr::from_ref(self));
        let _leave = Leave;
        body(self)
    }

    /// Runs `body` without the context: what it does counts as done from outside.
    pub(crate) fn step_out<R>(&self, body: impl FnOnce() -> R) -> R {
        let context = CURRENT.replace(ptr::null());
        let _return = defer(|| CURRENT.set(context));
        body()
    }

    /// The process whose step this is.
    pub(crate) fn pid(&self) -> Option<Pid> {
        self.thread.running()?.resident()
    }

    /// Queues a process that this thread has woken or spawned: it runs next, before the one that was to run next.
    #[inline]
    pub(crate) fn push_next(&self, token: Token) {
        let displaced = self.thread.swap_run_next(token);
        // What waits in the slot behind a step that does not end is the watchdog's.
        let attention = self.thread.attention();
        if attention & (LOST | UNWATCHED) != 0 {
            if attention & LOST != 0 {
                return self.push_without_permit(displaced);
            }
            self.be_watched();
        }
        if let Some(displaced) = displaced {
            self.deque.push(displaced);
            if let Some(thread) = self.host.idle.announce_own() {
                self.host.unpark(thread);
            }
        }
    }

    /// The same, when the thread has no permit to run it with: others do.
    #[cold]
    fn push_without_permit(&self, displaced: Option<Token>) {
        displaced.into_iter().chain(self.thread.take_run_next()).for_each(|token| self.host.push_global(token));
    }
}

impl Scheduler {
    /// Runs `body` with the users' own code; `None` when the host has been shut down.
    pub(crate) fn with_user<R>(&self, body: impl FnOnce(&UserCode) -> R) -> Option<R> {
        with_current(|context| match context {
            Some(context) if ptr::eq(context.host, self) => Some(body(&context.user)),
            _ => self.user().map(|user| body(&user)),
        })
    }

    /// Gives a command to its handler. Whatever goes wrong is the answer.
    pub(crate) fn dispatch(&self, command: Payload, caller: Caller) {
        // Without the users' code both are dropped, which answers.
        self.with_user(|user| user.dispatcher.dispatch(command, caller));
    }

    /// Sets a timer, and tells the poller if it is due first. `None` if there are too many.
    pub(crate) fn set_timer(&self, due: Moment, action: TimerAction) -> Option<TimerKey> {
        let (key, first) = self.timers.set(self.current_worker(), due, action)?;
        if first {
            self.wake_for_timer();
        }
        Some(key)
    }

    /// The permit that the calling thread holds, if it is a thread of this host.
    #[inline]
    pub(crate) fn current_worker(&self) -> Option<usize> {
        with_current(|context| {
            context.filter(|context| ptr::eq(context.host, self)).map(|context| context.permit_index.get())
        })
    }

    /// Runs code of others, which may take long, between two steps: so the thread's permit can be taken over as in a
    /// step.
    pub(crate) fn while_visiting<R>(&self, body: impl FnOnce() -> R) -> R {
        with_current(|context| {
            let thread = context.filter(|context| ptr::eq(context.host, self)).map(|context| context.thread);
            match thread.filter(|thread| thread.running().is_none()) {
                Some(thread) => thread.visit(body),
                None => body(),
            }
        })
    }

    /// Where the calling thread counts who comes and goes.
    pub(crate) fn lane(&self) -> TallyLane {
        with_current(|context| match context {
            Some(context) if ptr::eq(context.host, self) => TallyLane::Permit(context.permit_index.get()),
            _ => TallyLane::Shared,
        })
    }
}
