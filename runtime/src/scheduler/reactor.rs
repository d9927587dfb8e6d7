//! What processes wait with for things besides messages: the reactor of another library, with its sockets and timers.
//!
//! The scheduler knows no such library. A host has one reactor or none; its threads run processes *within* it, which they
//! enter once for their lives, so that a step costs nothing more. Wakes come back as from any other thread.

use super::host::{Host, UserCode};
use super::local::with_current;
use std::ptr;
use std::time::Duration;

/// See the module.
pub(crate) trait Reactor: Send + Sync {
    /// Runs `body` so that what it asks of the library, and all that it calls, comes to this reactor.
    fn within(&self, body: &mut dyn FnMut());

    /// Whether the calling thread is the one that drives it: one that must not wait for what only the reactor can bring.
    fn is_driven_here(&self) -> bool;

    /// Ends it, and waits for that for so long at most. Nothing runs within it any more but steps that do not return.
    fn end(&self, patience: Duration);
}

impl UserCode {
    /// Runs `body` within the host's reactor, if it has one.
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
}

impl Host {
    /// Runs `body` within the host's reactor, if it has one, as code of its processes on whatever thread.
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

    /// Whether the calling thread drives the host's reactor.
    pub(crate) fn is_reactor_here(&self) -> bool {
        let here = |user: &UserCode| user.reactor.as_ref().is_some_and(|reactor| reactor.is_driven_here());
        self.has_reactor && self.with_user(here) == Some(true)
    }

    /// Ends the reactor: all threads of the host have ended, but for those that are stuck.
    pub(crate) fn end_reactor(&self, patience: Duration) {
        if self.has_reactor
            && let Some(user) = self.user()
            && let Some(reactor) = &user.reactor
        {
            reactor.end(patience);
        }
    }
}
