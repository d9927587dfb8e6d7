//! How a runtime ends: when it is told to, from a thread or from async code, and when it is dropped.

use crate::errors::ShutdownError;
use crate::exit::ExitReason;
use crate::oneshot::Oneshot;
use crate::runtime::{Host, Runtime};
use crate::scheduler::aside::while_blocked;
use crate::scheduler::shutdown::ShutdownReport;
use crate::sync::{Arc, spawn_thread};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

impl Runtime {
    /// Runs until the program is interrupted (ctrl-c, or a request to terminate), then shuts down.
    ///
    /// # Errors
    /// [`ShutdownError::NoSignal`] if another part of the program has set a handler of its own; else as
    /// [`Runtime::shutdown`].
    #[cfg(feature = "ctrl-c")]
    pub fn run_until_ctrl_c(self) -> Result<ShutdownReport, ShutdownError> {
        crate::interrupt::Interrupt::catch()?.wait();
        self.shutdown()
    }

    /// Shuts the runtime down: new spawns are refused, every process is told to end and may clean up; what has not ended
    /// at the deadline is killed. Returns what ended how.
    ///
    /// It returns at the deadline even if a step never returns: that step is reported as stuck, and its thread left behind.
    /// Beyond the deadline it waits for no longer than 200 ms for a step that began less than 200 ms before the deadline, for
    /// as long again for the clean-up (`close` and drops) of those that it has killed, and, with Tokio of the runtime's own,
    /// for as long for a task that does not return.
    ///
    /// # Errors
    /// From inside one of its own processes, which would have to end first: the shutdown begins, and is not waited for.
    pub fn shutdown(self) -> Result<ShutdownReport, ShutdownError> {
        let deadline = self.deadline;
        self.shutdown_within(deadline)
    }

    /// The same with another deadline.
    ///
    /// # Errors
    /// As [`Runtime::shutdown`].
    pub fn shutdown_within(self, deadline: Duration) -> Result<ShutdownReport, ShutdownError> {
        let host = self.host;
        // The report is made here, so the drop has nothing left to do.
        let _this = std::mem::ManuallyDrop::new(self);
        shut_down(host, deadline)
    }

    /// The same for async code, whose thread must not be blocked: the shutdown begins at once, on a thread of its own, and
    /// the future gives the report. Dropping the future changes nothing: the shutdown goes on.
    ///
    /// # Errors
    /// The future gives what [`Runtime::shutdown`] does.
    pub fn shutdown_async(self) -> ShuttingDown {
        let (host, deadline) = (self.host, self.deadline);
        let _this = std::mem::ManuallyDrop::new(self);
        let report = Arc::new(Oneshot::new());
        if Host::current() == Some(host) {
            report.put(shut_down(host, deadline));
            return ShuttingDown(report);
        }
        let theirs = report.clone();
        let elsewhere = move || {
            theirs.put(shut_down(host, deadline));
        };
        if spawn_thread(format!("{}-shutdown", host.name()), elsewhere).is_err() {
            report.put(shut_down(host, deadline));
        }
        ShuttingDown(report)
    }
}

/// A shutdown that has begun. See [`Runtime::shutdown_async`].
#[must_use = "await it to learn when and how the processes have ended"]
pub struct ShuttingDown(Arc<Oneshot<Result<ShutdownReport, ShutdownError>>>);

impl Future for ShuttingDown {
    type Output = Result<ShutdownReport, ShutdownError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context.waker())
    }
}

impl fmt::Debug for ShuttingDown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShuttingDown")
    }
}

fn shut_down(host: Host, deadline: Duration) -> Result<ShutdownReport, ShutdownError> {
    let is_inside = Host::current() == Some(host) || host.scheduler().has_this_thread();
    if is_inside || host.scheduler().is_reactor_here() {
        host.scheduler().begin_shut_down(&ExitReason::Shutdown, deadline);
        return Err(ShutdownError::FromInside);
    }
    // A process of another runtime that does this lets the others of its own run meanwhile.
    let report = while_blocked(|| host.scheduler().shut_down(&ExitReason::Shutdown, deadline));
    host.forget_all();
    Ok(report)
}

impl Drop for Runtime {
    fn drop(&mut self) {
        match shut_down(self.host, self.deadline) {
            Ok(report) if !report.is_clean() => {
                tracing::warn!(%report, "a runtime was dropped, and not all ended by itself")
            }
            Ok(_) | Err(_) => {}
        }
    }
}
