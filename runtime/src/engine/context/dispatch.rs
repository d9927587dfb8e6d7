//! Services of a host for the thread that calls it: dispatching commands to handlers, setting timers, and accessing
//! user code.

use super::thread::with_current;
use crate::call::caller::Caller;
use crate::engine::host::{Scheduler, UserCode};
use crate::env::clock::{Moment, TimerKey};
use crate::mailbox::payload::Payload;
use crate::recorder::kind::RecordKind;
use crate::sync::simulated::{Mishap, mishap};
use crate::time::timers::TimerAction;
use std::ptr;

/// Decides the fate of a command in a simulation. Returns the command if it should be passed to its handler now. A
/// command that is to fail is dropped, and dropping its caller answers it. A command that is to be late is passed on by
/// a timer.
fn simulate_dispatch(host: &'static Scheduler, command: Payload, caller: Caller) -> Option<(Payload, Caller)> {
    let of = command.value_type();
    if mishap(Mishap::FailedCommand, of).is_some() {
        return None;
    }
    let Some(late) = mishap(Mishap::LateCommand, of) else { return Some((command, caller)) };
    let action = Box::new(move || _ = host.with_user(|user| user.handlers.dispatch(command, caller)));
    host.set_timer(Moment::now().after(late), TimerAction::Run(action));
    None
}

impl Scheduler {
    /// Calls `body` with the user code. Returns `None` if the host has been shut down.
    pub(crate) fn with_user<R>(&self, body: impl FnOnce(&UserCode) -> R) -> Option<R> {
        with_current(|context| match context {
            Some(context) if ptr::eq(context.host, self) => Some(body(&context.user)),
            _ => self.user().map(|user| body(&user)),
        })
    }

    /// Passes a command to its handler. If that fails, the error is the answer.
    pub(crate) fn dispatch(&'static self, command: Payload, caller: Caller) {
        let Some((command, caller)) = simulate_dispatch(self, command, caller) else { return };
        // Without the user code, both are dropped, and dropping the caller answers the command.
        self.with_user(|user| user.handlers.dispatch(command, caller));
    }

    pub(crate) fn set_timer(&'static self, due: Moment, action: TimerAction) -> Option<TimerKey> {
        if self.recorder.is_sampling() {
            self.record_timer(due, action.process());
        }
        let (key, first) = self.timers.set(self.current_worker(), due, action)?;
        if first {
            self.wake_for_timer();
        }
        Some(key)
    }

    #[cold]
    #[inline(never)]
    fn record_timer(&'static self, due: Moment, process: u64) {
        self.recorder.note(RecordKind::TimerSet, process, due.nanoseconds(), None);
    }

    /// Returns the permit that the calling thread holds, or held most recently, if the thread belongs to this host.
    #[inline]
    pub(crate) fn current_worker(&self) -> Option<usize> {
        with_current(|context| {
            context.filter(|context| ptr::eq(context.host, self)).map(|context| context.permit_index.get())
        })
    }

    /// Returns the number of the calling thread, if the thread belongs to this host. The thread of a pinned process has
    /// a greater number than any other thread.
    #[inline]
    pub(crate) fn current_thread(&self) -> Option<usize> {
        with_current(|context| context.filter(|context| ptr::eq(context.host, self)).map(|context| context.index))
    }

    /// Runs foreign code between two steps. Such code may take a long time, so the thread's permit can be taken over
    /// while it runs, as during a step.
    pub(crate) fn while_visiting<R>(&self, body: impl FnOnce() -> R) -> R {
        with_current(|context| {
            let thread = context.filter(|context| ptr::eq(context.host, self)).map(|context| context.thread);
            match thread.filter(|thread| thread.running().is_none()) {
                Some(thread) => thread.visit(body),
                None => body(),
            }
        })
    }
}
