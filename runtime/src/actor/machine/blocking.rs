//! Blocking operations in a method: system calls, foreign locks, long computations.

use crate::engine::blocking::queued::{BlockOutcome, QueuedPlace, block_async};
use crate::{Context, block_in_place};
use std::task::{self, Poll};
use std::{fmt, future::Future, pin::Pin};

/// A blocking operation that has not begun: await it in an async method, or call [`wait`](Self::wait) in a sync one.
/// Made by [`Context::blocking`].
#[must_use = "nothing runs until `.await` or `.wait()`"]
pub struct Blocking<F, R> {
    state: BlockingState<F, R>,
}

enum BlockingState<F, R> {
    New(F),
    /// Queued for a thread.
    Waits(F, QueuedPlace),
    /// Finished; the process is queued for a permit.
    Ran(R),
    Over,
}

impl<F: FnOnce() -> R, R> Blocking<F, R> {
    /// Runs the operation on this thread, while another thread runs the other processes, and returns when a permit is
    /// available. In an async method, await it instead.
    ///
    /// # Panics
    /// If the operation panics, with its panic.
    pub fn wait(self) -> R {
        match self.state {
            BlockingState::New(run) | BlockingState::Waits(run, _) => block_in_place(run),
            BlockingState::Ran(output) => output,
            BlockingState::Over => panic!("a blocking operation is waited for after it has completed"),
        }
    }
}

// The closure and its result are never pinned.
impl<F, R> Unpin for Blocking<F, R> {}

impl<F: FnOnce() -> R, R> Future for Blocking<F, R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<R> {
        let (run, place) = match std::mem::replace(&mut self.state, BlockingState::Over) {
            BlockingState::New(run) => (run, None),
            BlockingState::Waits(run, place) => (run, Some(place)),
            BlockingState::Ran(output) => return Poll::Ready(output),
            BlockingState::Over => panic!("a blocking operation is polled after it has completed"),
        };
        match block_async(run, place, context.waker()) {
            BlockOutcome::Ran(output, true) => Poll::Ready(output),
            BlockOutcome::Ran(output, false) => {
                self.state = BlockingState::Ran(output);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            BlockOutcome::Waits(run, place) => {
                self.state = BlockingState::Waits(run, place);
                Poll::Pending
            }
        }
    }
}

impl<F, R> fmt::Debug for Blocking<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            BlockingState::New(_) => "new",
            BlockingState::Waits(..) => "waits for a thread",
            BlockingState::Ran(_) => "has run",
            BlockingState::Over => "over",
        };
        f.debug_struct("Blocking").field("state", &state).finish()
    }
}

impl<P> Context<P> {
    /// Runs `run`, which blocks its thread (a system call, a foreign lock, a long computation), while another thread
    /// runs the other processes. It starts when the value is awaited, in an async method, or waited for, in a sync one.
    ///
    /// `run` executes on this thread's stack, inside the step: it may borrow the method's locals and `self`, and its
    /// panic is the step's. Its sends count as sent from outside. Once begun it is not cancelled: a process that is
    /// killed meanwhile ends when `run` returns.
    ///
    /// Afterwards the step continues at once if a worker is idle. Otherwise an async method's process queues for its
    /// turn, and a sync method continues on the first worker that finishes a step. At most
    /// [`Builder::blocking_threads`](crate::Builder::blocking_threads) steps block at a time: beyond that an async
    /// method waits (if dropped, `run` never starts), and a sync one blocks its worker, which is counted and logged.
    ///
    /// Costs a hand-off to another thread, some microseconds; a new thread if there is no spare one. A machine that is
    /// driven by hand simply runs it.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use std::{fs, io, path::PathBuf};
    ///
    /// #[process]
    /// struct Files { root: PathBuf, reads: u32 }
    ///
    /// #[process]
    /// impl Files {
    ///     #[entry]
    ///     fn serve(&mut self) {}
    ///     /// In a sync method: `.wait()`.
    ///     #[message]
    ///     fn length(&mut self, ctx: &mut Context<Self>, name: String) -> Result<u64, io::Error> {
    ///         let data = ctx.blocking(|| fs::metadata(self.root.join(&name))).wait()?;
    ///         Ok(data.len())
    ///     }
    ///     /// In an async one: `.await`.
    ///     #[message]
    ///     async fn read(&mut self, ctx: &mut Context<Self>, name: String) -> Result<String, io::Error> {
    ///         ctx.blocking(|| { self.reads += 1; fs::read_to_string(self.root.join(&name)) }).await
    ///     }
    /// }
    ///
    /// let runtime = Runtime::new()?;
    /// let files = runtime.spawn(Files { root: "/no/such/place".into(), reads: 0 }).serve()?;
    /// let Err(CallError::Failed(error)) = files.read("a".into()).wait() else { panic!("there is no such file") };
    /// assert_eq!(error.kind(), io::ErrorKind::NotFound);
    /// assert!(files.length("a".into()).wait().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn blocking<F: FnOnce() -> R, R>(&self, run: F) -> Blocking<F, R> {
        Blocking { state: BlockingState::New(run) }
    }
}
