//! Answers to threads and to tasks of other executors.

use super::pending::CommandResult;
use super::time_source::OwnedTimer;
use crate::env::clock::{Moment, TimeKeeper};
use crate::errors::{CallError, CommandError};
use crate::sync::{Arc, OnceLock, Weak};
use crate::time::timekeeper::{LimitedWait, timekeeper};
use crate::{
    ExitReason, Payload, Pid, call::caller::OutsideCaller, process::control::EndWaiter, util::oneshot::Oneshot,
};

/// A call that no process awaits.
pub(crate) struct OutsideCall {
    pub(crate) answer: Oneshot<CommandResult>,
    /// The process that makes the call and blocks its thread, or that runs the executor of the call.
    caller: Option<Pid>,
    /// Ends the call at its deadline, once it has waited for so long that it has a timer.
    timer: OnceLock<OwnedTimer>,
}

impl OutsideCall {
    pub(crate) fn new(caller: Option<Pid>) -> Arc<Self> {
        Arc::new(Self { answer: Oneshot::new(), caller, timer: OnceLock::new() })
    }

    /// Ends the call with [`CallError::Timeout`] at `deadline`, by the program's timekeeper. Returns the timer, if the
    /// call has one from the start.
    pub(crate) fn limit(self: &Arc<Self>, deadline: Moment) -> Option<OwnedTimer> {
        if timekeeper().limit(Moment::about_now(), deadline, Arc::downgrade(self) as _) {
            return None;
        }
        self.limit_by(timekeeper(), deadline)
    }

    /// Like [`limit`](Self::limit), but sets a timer at once.
    pub(crate) fn limit_by(self: &Arc<Self>, by: &'static dyn TimeKeeper, deadline: Moment) -> Option<OwnedTimer> {
        timer(by, Arc::downgrade(self) as _, deadline)
    }
}

fn timer(by: &'static dyn TimeKeeper, waiting: Weak<dyn LimitedWait>, deadline: Moment) -> Option<OwnedTimer> {
    OwnedTimer::set(by, deadline, move || {
        if let Some(waiting) = waiting.upgrade() {
            waiting.expire();
        }
    })
}

/// A call that waits no more has no waker and, once its future is dropped, no answer.
impl LimitedWait for OutsideCall {
    fn is_waiting(&self) -> bool {
        self.answer.is_awaited()
    }

    fn set_timer(&self, this: Weak<dyn LimitedWait>, deadline: Moment) {
        if let Some(timer) = timer(timekeeper(), this, deadline) {
            let _set = self.timer.set(timer);
        }
    }

    fn expire(&self) {
        self.answer.put(Err(CommandError::Call(CallError::Timeout)));
    }
}

impl OutsideCaller for OutsideCall {
    fn answer(&self, result: CommandResult) {
        self.answer.put(result);
    }

    fn is_abandoned(&self) -> bool {
        // If the called process has not answered, a result can only have been stored at the deadline.
        !self.answer.is_awaited()
    }

    fn pid(&self) -> Option<Pid> {
        self.caller
    }
}

pub(crate) struct ExitWaiter(pub(crate) Oneshot<(ExitReason, Option<Payload>)>);

impl EndWaiter for ExitWaiter {
    fn ended(&self, reason: &ExitReason, result: Option<Payload>) {
        self.0.put((reason.clone(), result));
    }

    fn is_awaited(&self) -> bool {
        self.0.is_awaited()
    }
}
