//! Helpers of the tests of the public API.
//!
//! No test result depends on timing. A test waits for exactly the event that it needs, and the time limit only turns a
//! hang into a failure.

use crate::within;
use postroom::inspect::DeadLetterReason;
use postroom::{Builder, ExitReason, Runtime};
use std::future::Future;
use std::pin::Pin;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

/// Runs `body` [`within`] a time limit far above what any test needs.
pub fn watched<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    within(Duration::from_secs(60), body)
}

/// Like [`watched`], but in a program of its own, in which no other test runs. `name` is the path of the calling test,
/// which that program runs again.
pub fn alone(name: &str, body: impl FnOnce() + Send + 'static) {
    const ALONE: &str = "POSTROOM_TEST_ALONE";
    if std::env::var_os(ALONE).is_some_and(|alone| *alone == *name) {
        return watched(body);
    }
    let mut program = Command::new(std::env::current_exe().expect("the system knows"));
    program.args(["--exact", name, "--nocapture"]).env(ALONE, name);
    let output = program.output().expect("the program of this test can be started again");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Returns a builder with two workers, and with a short shutdown deadline in case a test fails. Calls may take an hour,
/// since more than the default of five seconds can pass on a busy machine, and a test that hangs is ended anyway.
pub fn builder() -> Builder {
    Runtime::builder().workers(2).call_timeout(Duration::from_secs(3600)).shutdown_deadline(Duration::from_secs(10))
}

/// Runs `body` with a two-worker runtime under a time limit, and checks that the shutdown did not have to kill any
/// process.
pub fn with_runtime(body: impl FnOnce(&Runtime) + Send + 'static) {
    watched(move || {
        let runtime = builder().build().expect("a runtime with two workers can be built");
        body(&runtime);
        let report = runtime.shutdown().expect("asked from outside");
        assert!(!report.was_forced(), "{report}");
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A way to end a process, and the exit reason that the process then has.
pub type End<To, Out = bool> = (fn(To) -> Out, ExitReason);

/// An ordered log of events, which any thread can append to.
#[derive(Debug)]
pub struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T> Log<T> {
    /// Makes an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a line.
    pub fn add(&self, line: T) {
        lock(&self.0).push(line);
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        lock(&self.0).len()
    }

    /// Returns whether the log is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Clone> Log<T> {
    /// Returns all lines so far.
    pub fn all(&self) -> Vec<T> {
        lock(&self.0).clone()
    }
}

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// Adds a line to a log when it is dropped.
#[derive(Debug)]
pub struct OnDrop(pub Log<&'static str>, pub &'static str);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

/// Returns a [`builder`] and the log of its dead letters: the type name of each message, and the reason.
pub fn with_dead_letters() -> (Builder, Log<(&'static str, DeadLetterReason)>) {
    let log = Log::new();
    let hook = log.clone();
    (builder().on_dead_letter(move |letter| hook.add((letter.message.type_name(), letter.reason))), log)
}

/// A gate at which futures and threads wait until it is opened.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    open: bool,
    waiting: Vec<Waker>,
    arrived: usize,
}

impl Gate {
    /// Makes a closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the gate, and wakes all waiters on the calling thread.
    pub fn open(&self) {
        let waiting = {
            let mut state = lock(&self.0.0);
            state.open = true;
            std::mem::take(&mut state.waiting)
        };
        self.0.1.notify_all();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Opens the gate from a thread that belongs to no runtime.
    pub fn open_elsewhere(&self) {
        let gate = self.clone();
        thread::spawn(move || gate.open()).join().expect("opening does not panic");
    }

    /// Returns a future that is ready when the gate is open.
    pub fn passed(&self) -> Passed {
        Passed { gate: self.clone(), arrived: false }
    }

    /// Blocks the thread until the gate is open.
    pub fn pass(&self) {
        let mut state = lock(&self.0.0);
        while !state.open {
            state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Blocks the thread until `count` futures have waited at this gate.
    pub fn wait_for_arrivals(&self, count: usize) {
        let mut state = lock(&self.0.0);
        while state.arrived < count {
            state = self.0.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Blocks the thread until a future has waited at this gate.
    pub fn wait_for_arrival(&self) {
        self.wait_for_arrivals(1);
    }
}

/// The future of [`Gate::passed`].
#[derive(Debug)]
pub struct Passed {
    gate: Gate,
    arrived: bool,
}

impl Future for Passed {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let gate = self.gate.clone();
        let mut state = lock(&gate.0.0);
        if state.open {
            return Poll::Ready(());
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        if !self.arrived {
            self.arrived = true;
            state.arrived += 1;
            gate.0.1.notify_all();
        }
        Poll::Pending
    }
}

/// Polls `future` once, with a waker that does nothing.
pub fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls `condition` every millisecond until it holds. This is for changes that no event announces. The caller must set
/// a time limit.
pub fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        thread::sleep(Duration::from_millis(1));
    }
}
