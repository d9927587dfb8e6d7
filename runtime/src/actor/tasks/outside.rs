//! Answers to threads and to tasks of other executors.

use super::pending::CommandResult;
use crate::{ExitReason, Payload, call::caller::OutsideCaller, process::control::EndWaiter, util::oneshot::Oneshot};

pub(crate) struct OutsideCall(pub(crate) Oneshot<CommandResult>);

impl OutsideCaller for OutsideCall {
    fn answer(&self, result: CommandResult) {
        self.0.put(result);
    }

    fn is_abandoned(&self) -> bool {
        // A result that the called process did not send is that of the deadline.
        !self.0.is_awaited()
    }
}

pub(crate) struct ExitWaiter(pub(crate) Oneshot<(ExitReason, Option<Payload>)>);

impl EndWaiter for ExitWaiter {
    fn ended(&self, reason: &ExitReason, result: Option<Payload>) {
        self.0.put((reason.clone(), result));
    }
}
