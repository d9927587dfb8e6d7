//! Answers to threads and to tasks of other executors.

use super::pending::CommandResult;
use crate::{
    ExitReason, Payload, Pid, call::caller::OutsideCaller, process::control::EndWaiter, util::oneshot::Oneshot,
};

/// The pending answer to a call, and the PID of the process that makes the call, if a process does.
pub(crate) struct OutsideCall(pub(crate) Oneshot<CommandResult>, pub(crate) Option<Pid>);

impl OutsideCaller for OutsideCall {
    fn answer(&self, result: CommandResult) {
        self.0.put(result);
    }

    fn is_abandoned(&self) -> bool {
        // If the called process has not answered, a result can only have been stored at the deadline.
        !self.0.is_awaited()
    }

    fn pid(&self) -> Option<Pid> {
        self.1
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
