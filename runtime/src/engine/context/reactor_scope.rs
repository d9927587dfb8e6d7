//! Running code within the host's [`reactor`](crate::engine::io::reactor).

use super::thread::with_current;
use crate::engine::host::{Scheduler, UserCode};
use crate::engine::io::reactor::{Driver, PermitTasks};
use std::ptr;
use std::time::Duration;

impl UserCode {
    pub(crate) fn within<R>(&self, body: impl FnOnce() -> R) -> R {
        match &self.reactor {
            None => body(),
            Some(reactor) => {
                let (mut body, mut output) = (Some(body), None);
                reactor.within(&mut || output = body.take().map(|body| body()));
                output.unwrap_or_else(|| unreachable!("a reactor runs what it is given"))
            }
        }
    }

    pub(crate) fn driver(&self) -> Option<&dyn Driver> {
        self.reactor.as_ref()?.driver()
    }

    pub(crate) fn tasks(&self) -> Option<&dyn PermitTasks> {
        self.reactor.as_ref()?.tasks()
    }

    /// Runs `block`, which may block its thread. The reactor's other tasks run on other threads meanwhile, if it can
    /// arrange that.
    pub(crate) fn while_blocking<R>(&self, block: impl FnOnce() -> R) -> R {
        match self.tasks() {
            None => block(),
            Some(tasks) => {
                let (mut block, mut output) = (Some(block), None);
                tasks.while_blocking(&mut || output = block.take().map(|block| block()));
                output.unwrap_or_else(|| unreachable!("a reactor runs what it is given"))
            }
        }
    }
}

impl Scheduler {
    /// Runs `body` within the host's reactor, if it has one, just as the code of the host's processes runs within it.
    /// May be called on any thread.
    #[inline]
    pub(crate) fn within_reactor<R>(&self, body: impl FnOnce() -> R) -> R {
        if !self.has_reactor || with_current(|context| context.is_some_and(|context| ptr::eq(context.host, self))) {
            return body();
        }
        match self.user() {
            Some(user) => user.within(body),
            None => body(),
        }
    }

    /// Ends the reactor, after all threads of the host have ended, except those that are stuck.
    pub(crate) fn end_reactor(&self, patience: Duration) {
        if self.has_reactor
            && let Some(user) = self.user()
            && let Some(reactor) = &user.reactor
        {
            reactor.end(patience);
        }
    }
}
