//! Shutting a runtime down: from a thread, from async code, and on drop.

use super::runtime::{Host, Runtime};
use crate::engine::{blocking::block_in_place::while_blocked, shutdown::ShutdownReport};
use crate::sync::{Arc, ThreadKind, spawn_thread};
use crate::util::{notifiers, oneshot::Oneshot};
use crate::{ExitReason, errors::ShutdownError};
use std::task::{Context, Poll};
use std::{future::Future, mem::ManuallyDrop, pin::Pin, time::Duration};

#[derive(Clone, Copy)]
enum ShutdownMode {
    Shutdown(Duration),
    Drain(Duration),
}

impl Runtime {
    /// Runs until the program is interrupted (ctrl-c, or a request to terminate), then shuts down. Queued messages are
    /// discarded; use [`drain_at_ctrl_c`](Self::drain_at_ctrl_c) to handle them first.
    ///
    /// # Errors
    /// [`ShutdownError::NoSignal`] if the program has set another handler; otherwise those of [`Runtime::shutdown`].
    #[cfg(feature = "ctrl-c")]
    pub fn run_until_ctrl_c(self) -> Result<ShutdownReport, ShutdownError> {
        crate::api::interrupt::Interrupt::catch()?.wait();
        self.shutdown()
    }

    /// Runs until the program is interrupted (ctrl-c, or a request to terminate), then [drains](Self::drain): a
    /// graceful shutdown.
    ///
    /// # Errors
    /// Those of [`Runtime::run_until_ctrl_c`].
    #[cfg(feature = "ctrl-c")]
    pub fn drain_at_ctrl_c(self, deadline: Duration) -> Result<ShutdownReport, ShutdownError> {
        crate::api::interrupt::Interrupt::catch()?.wait();
        self.drain(deadline)
    }

    /// Shuts the runtime down: new spawns are refused, and every process is told to end and may clean up; processes
    /// that have not ended at the deadline are killed. Returns how the processes ended.
    ///
    /// Queued messages are discarded and counted in the report; use [`drain`](Self::drain) to handle them first.
    ///
    /// Returns at the deadline even if a step never returns: that step is reported as stuck, and its thread is left
    /// behind. After the deadline, it waits at most 200 ms for each of these:
    /// - a step that began less than 200 ms before the deadline;
    /// - the clean-up (`close` and drops) of killed processes, or, if none was killed, other code that a worker runs (a
    ///   hook, the action of a timer, a task of the runtime's own Tokio); if it does not return in this time, its
    ///   thread is left behind, too;
    /// - the end of the runtime's own Tokio.
    ///
    /// # Errors
    /// [`ShutdownError::FromInside`] inside one of the runtime's own processes, because this process would have to end
    /// first. The shutdown begins but is not waited for, and its losses are logged when the last process has ended. In
    /// a simulated test, [`ShutdownError::Simulated`] with the same effect.
    pub fn shutdown(self) -> Result<ShutdownReport, ShutdownError> {
        let deadline = self.deadline;
        self.shutdown_within(deadline)
    }

    /// Shuts the runtime down like [`shutdown`](Self::shutdown), but with the given deadline.
    ///
    /// # Errors
    /// Those of [`Runtime::shutdown`].
    pub fn shutdown_within(self, deadline: Duration) -> Result<ShutdownReport, ShutdownError> {
        self.end(ShutdownMode::Shutdown(deadline))
    }

    /// Shuts the runtime down without blocking the caller: the shutdown begins at once on its own thread, and the
    /// future returns the report. Dropping the future does not stop the shutdown.
    ///
    /// # Errors
    /// The future returns the errors of [`Runtime::shutdown`].
    pub fn shutdown_async(self) -> ShuttingDown {
        let deadline = self.deadline;
        self.end_async(ShutdownMode::Shutdown(deadline))
    }

    /// Handles all queued messages, then shuts the runtime down: a *graceful shutdown*.
    ///
    /// Everything continues until the runtime is *drained*: until there is a moment at which none of its processes
    /// runs, has an unhandled message, or is in the middle of one. A process is in the middle of a message while its
    /// async method waits, be it for a timer or a socket, and while a future runs beside its methods (`ctx.run`).
    /// During the drain, processes may send, call and spawn, and supervisors restart those that fail. The drain does
    /// not wait for an async entry, a timer, an interval, an attached stream, or a [`Reply`](crate::Reply) that is
    /// kept.
    ///
    /// Then the runtime shuts down like [`shutdown`](Self::shutdown), within the rest of the deadline. If it is not
    /// drained after nine tenths of the deadline, it shuts down anyway and the report says so: `drained` is
    /// `Some(false)`, and `unfinished` names some of the processes that had work left.
    ///
    /// Messages from outside (threads, other runtimes) are accepted during the drain and delay its end; those that
    /// arrive in its last moment are discarded and counted. Stop the sources first: close the listener, then drain.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use std::time::Duration;
    ///
    /// #[process]
    /// struct Press { printed: std::sync::mpsc::Sender<u32> }
    ///
    /// #[process]
    /// impl Press {
    ///     #[entry]
    ///     fn serve(&mut self) {}
    ///     #[message]
    ///     async fn print(&mut self, ctx: &mut Context<Self>, page: u32) {
    ///         ctx.sleep(Duration::from_millis(1)).await;
    ///         let _ = self.printed.send(page);
    ///     }
    /// }
    ///
    /// let runtime = Runtime::new()?;
    /// let (printed, pages) = std::sync::mpsc::channel();
    /// let press = runtime.spawn(Press { printed }).serve()?;
    /// for page in 0..10 {
    ///     press.print(page).send()?;
    /// }
    /// let report = runtime.drain(Duration::from_secs(10))?;
    /// assert!(report.is_clean(), "{report}");
    /// assert_eq!(pages.iter().count(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ShutdownError::FromInside`] inside one of the runtime's own processes, because this process would be in a step
    /// while it waits. The drain begins on its own thread but is not waited for. In a simulated test,
    /// [`ShutdownError::Simulated`] with the same effect.
    pub fn drain(self, deadline: Duration) -> Result<ShutdownReport, ShutdownError> {
        self.end(ShutdownMode::Drain(deadline))
    }

    /// Drains the runtime like [`drain`](Self::drain), but without blocking the caller: the drain runs on its own
    /// thread, and the future returns the report. Dropping the future does not stop the drain.
    ///
    /// # Errors
    /// The future returns the errors of [`Runtime::drain`].
    pub fn drain_async(self, deadline: Duration) -> ShuttingDown {
        self.end_async(ShutdownMode::Drain(deadline))
    }

    fn end(self, end: ShutdownMode) -> Result<ShutdownReport, ShutdownError> {
        // `finish` is called here, to return its report, and must not be called again by the drop.
        let this = ManuallyDrop::new(self);
        finish(this.host, end)
    }

    fn end_async(self, end: ShutdownMode) -> ShuttingDown {
        let host = ManuallyDrop::new(self).host;
        let report = Arc::new(Oneshot::new());
        let theirs = report.clone();
        let elsewhere = move || {
            theirs.put(finish(host, end));
        };
        if is_inside(host)
            || spawn_thread(ThreadKind::Shutdown, format!("{}-shutdown", host.name()), elsewhere).is_err()
        {
            report.put(finish(host, end));
        }
        ShuttingDown(report)
    }
}

/// A shutdown or a drain in progress. See [`Runtime::shutdown_async`].
#[must_use = "await it to learn when and how the processes have ended"]
pub struct ShuttingDown(Arc<Oneshot<Result<ShutdownReport, ShutdownError>>>);

impl Future for ShuttingDown {
    type Output = Result<ShutdownReport, ShutdownError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context.waker())
    }
}

crate::util::debug::impl_debug!([] ShuttingDown, self => "ShuttingDown");

/// Returns true if the calling thread is inside `host`, even while its step blocks. If such a thread waited for the end
/// of the host, it would wait for itself.
fn is_inside(host: Host) -> bool {
    Host::current() == Some(host) || host.scheduler().has_this_thread()
}

/// Ends the runtime of `host`, waits for its end, and logs the losses. From inside the host, it only begins the
/// shutdown, and the losses are logged later, when all processes have ended.
fn finish(host: Host, end: ShutdownMode) -> Result<ShutdownReport, ShutdownError> {
    if notifiers::is_needed() {
        // User code should never run on a thread that others depend on. If it does anyway, the other threads must not
        // wait for this shutdown.
        notifiers::notify(Box::new(move || drop(finish(host, end))));
        return Err(ShutdownError::FromInside);
    }
    // If this thread runs user code for want of another thread, the shutdown may wait for something that depends on
    // this thread.
    if is_inside(host) || ThreadKind::is_depended_on() || host.scheduler().is_reactor_here() {
        begin(host, end);
        return Err(ShutdownError::FromInside);
    }
    if crate::sync::simulated::is_here() {
        // This thread would wait in simulated time, and the threads of this runtime do nothing in that time.
        crate::sync::simulated::outside(|| {
            let elsewhere = move || drop(finish(host, end));
            if spawn_thread(ThreadKind::Shutdown, format!("{}-shutdown", host.name()), elsewhere).is_err() {
                begin(host, end);
            }
        });
        return Err(ShutdownError::Simulated);
    }
    // If a process of another runtime calls this, the other processes of that runtime can run in the meantime.
    let report = while_blocked(|| match end {
        ShutdownMode::Shutdown(deadline) => host.scheduler().shut_down(&ExitReason::Shutdown, deadline),
        ShutdownMode::Drain(deadline) => host.scheduler().drain(&ExitReason::Shutdown, deadline),
    });
    host.host_record().forget_all();
    report.log(host.name());
    host.retire();
    Ok(report)
}

/// Begins a shutdown for a caller that must not wait for its end: see `finish`.
fn begin(host: Host, end: ShutdownMode) {
    let (ShutdownMode::Shutdown(deadline) | ShutdownMode::Drain(deadline)) = end;
    if let ShutdownMode::Drain(_) = end {
        let elsewhere = move || drop(finish(host, end));
        let Err(error) = spawn_thread(ThreadKind::Shutdown, format!("{}-drain", host.name()), elsewhere) else {
            return;
        };
        let runtime = host.name();
        crate::util::log::warn!(runtime, %error, "a runtime is shut down undrained: no thread could be started for it");
    }
    host.scheduler().begin_shut_down(&ExitReason::Shutdown, deadline);
    host.retire();
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let _report = finish(self.host, ShutdownMode::Shutdown(self.deadline));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate as postroom;
    use crate::Builder;

    /// Catches: a shutdown waits for the very thread that it is called on, and so panics or hangs.
    #[test]
    fn on_a_thread_that_others_depend_on_a_shutdown_begins_and_is_an_error() {
        for kind in ThreadKind::ALL.iter().copied().filter(|kind| !kind.runs_users_code()) {
            for drains in [false, true] {
                let runtime = Builder::new().workers(1).build().expect("one worker");
                let host = runtime.host();
                let ends = move || match drains {
                    true => runtime.drain(Duration::from_secs(60)),
                    false => runtime.shutdown(),
                };
                let (outcome, ended) = (Arc::new(Oneshot::new()), Arc::new(Oneshot::new()));
                let (say, over) = (outcome.clone(), ended.clone());
                let run = move || {
                    say.put(ends());
                    over.put(());
                };
                spawn_thread(kind, "depended-on".to_string(), run).expect("it starts");
                assert!(ended.wait(None).is_some());
                let Some(Err(error)) = outcome.wait(None) else { panic!("{kind:?} has waited") };
                assert_eq!(error, ShutdownError::FromInside);
                while !host.is_shutting_down() {
                    std::thread::yield_now();
                }
            }
        }
    }

    #[postroom::process(crate = crate)]
    struct Drains {}

    #[postroom::process(crate = crate)]
    impl Drains {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn drain(&mut self, runtime: Runtime) -> Option<ShutdownError> {
            postroom::block_on(async move { runtime.drain_async(Duration::MAX).await.err() })
        }
        #[message]
        fn shut_down(&mut self, runtime: Runtime) -> Option<ShutdownError> {
            runtime.shutdown().err()
        }
    }

    /// Catches: the registered types of a runtime that is shut down from inside are kept until a runtime with the
    /// same configuration is built.
    #[test]
    fn what_a_runtime_that_ends_from_inside_has_registered_is_dropped_when_another_begins() {
        let runtime = Builder::new().workers(3).build().expect("three workers");
        let kept = Arc::new(());
        let held = kept.clone();
        runtime.register_pinned_type("Drains", move || {
            let _held = &held;
            Drains {}
        });
        let drains = runtime.spawn(Drains {}).serve().expect("it starts");
        assert_eq!(
            drains.shut_down(runtime).timeout(Duration::from_secs(60)).wait(),
            Ok(Some(ShutdownError::FromInside))
        );
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while Arc::strong_count(&kept) > 1 {
            assert!(std::time::Instant::now() < until, "it is still held");
            drop(Builder::new().workers(2).build().expect("two workers"));
        }
    }

    /// Catches: a drain that begins in a blocking part of a step waits for the end of that step.
    #[test]
    fn in_a_step_that_blocks_an_async_drain_begins_and_is_an_error() {
        let runtime = Builder::new().workers(1).build().expect("one worker");
        let drains = runtime.spawn(Drains {}).serve().expect("it starts");
        let answer = drains.drain(runtime).timeout(Duration::from_secs(60)).wait();
        assert_eq!(answer, Ok(Some(ShutdownError::FromInside)));
    }

    /// Catches: user code that runs in place of a notifier, on a thread that others depend on, waits for the end of
    /// those others.
    #[test]
    fn in_place_of_a_notifier_a_shutdown_begins_and_is_an_error() {
        let runtime = Builder::new().workers(1).build().expect("one worker");
        let (host, outcome) = (runtime.host(), Arc::new(Oneshot::new()));
        let say = outcome.clone();
        let job: notifiers::Job = Box::new(move || _ = say.put(runtime.shutdown()));
        let run = move || notifiers::perform_here([job].into());
        spawn_thread(ThreadKind::Watchdog, "depended-on".to_string(), run).expect("it starts");
        let Some(Err(error)) = outcome.wait(None) else { panic!("it has waited") };
        assert_eq!(error, ShutdownError::FromInside);
        assert!(host.is_shutting_down());
    }

    /// Catches: an async shutdown that begins on a thread that others depend on gets no thread of its own.
    #[test]
    fn on_a_thread_that_others_depend_on_an_async_shutdown_has_its_own() {
        let runtime = Builder::new().workers(1).build().expect("one worker");
        let begun = Arc::new(Oneshot::new());
        let say = begun.clone();
        let run = move || _ = say.put(runtime.shutdown_async());
        spawn_thread(ThreadKind::Watchdog, "depended-on".to_string(), run).expect("it starts");
        let ending = begun.wait(None).expect("it is begun");
        assert!(crate::block_on(ending).is_ok_and(|report| report.is_clean()));
    }
}
