//! Something that blocks, in a method: a system call, a foreign lock, a long computation.

use crate::actor::definition::context::Context;
use crate::engine::blocking::block_in_place::block_in_place;
use crate::engine::blocking::queued::{BlockOutcome, QueuedPlace, block_async};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{self, Poll};

/// Something that blocks its thread, and has not begun: await it in an async method, or [`wait`](Self::wait) in a sync
/// one. Made by [`Context::blocking`].
#[must_use = "nothing runs until `.await` or `.wait()`"]
pub struct Blocking<F, R> {
    state: BlockingState<F, R>,
}

enum BlockingState<F, R> {
    New(F),
    /// There is no thread for it yet.
    Waits(F, QueuedPlace),
    /// It has run, and the process had to wait for its turn.
    Ran(R),
    Over,
}

impl<F: FnOnce() -> R, R> Blocking<F, R> {
    /// Runs it, on this thread, while another thread runs the other processes; and goes on when there is a worker for
    /// it. In an async method, await it instead.
    ///
    /// # Panics
    /// If what runs does, with its panic.
    pub fn wait(self) -> R {
        match self.state {
            BlockingState::New(run) | BlockingState::Waits(run, _) => block_in_place(run),
            BlockingState::Ran(output) => output,
            BlockingState::Over => panic!("what blocks has been awaited to its end"),
        }
    }
}

// What runs is never pinned, and so is nothing in here.
impl<F, R> Unpin for Blocking<F, R> {}

impl<F: FnOnce() -> R, R> Future for Blocking<F, R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<R> {
        let (run, place) = match std::mem::replace(&mut self.state, BlockingState::Over) {
            BlockingState::New(run) => (run, None),
            BlockingState::Waits(run, place) => (run, Some(place)),
            BlockingState::Ran(output) => return Poll::Ready(output),
            BlockingState::Over => panic!("what blocks is polled after it was ready"),
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
    /// runs the other processes. Nothing runs until the value is awaited, in an async method, or waited for, in a sync
    /// one.
    ///
    /// It runs on this thread's stack, in the step: it may borrow from the method's locals and from `self`, and a panic
    /// in it is the step's. What it sends counts as sent from outside. Once it has begun it is not cancelled: a process
    /// that is killed meanwhile ends when it is over.
    ///
    /// Afterwards the step goes on if a worker is idle; else an async method's process takes its turn in the queue, and
    /// a sync one goes on with the first worker that ends a step. At most as many steps block at a time as
    /// [`Builder::blocking_threads`](crate::Builder::blocking_threads) says: beyond that an async one waits for its
    /// turn (dropped meanwhile, it does not run), and a sync one blocks its worker, which is counted and logged.
    ///
    /// Costs a hand-over to another thread, some microseconds; a new thread if none stands by. In a machine that is
    /// driven by hand it simply runs.
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
    /// assert!(matches!(files.read("a".into()).wait(), Err(CallError::Failed(error)) if error.kind() == io::ErrorKind::NotFound));
    /// assert!(files.length("a".into()).wait().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn blocking<F: FnOnce() -> R, R>(&self, run: F) -> Blocking<F, R> {
        Blocking { state: BlockingState::New(run) }
    }
}
