//! Blocking operations in a method: system calls, foreign locks, long computations.

use crate::Context;
use crate::actor::tasks::current::unpolled;
use crate::engine::blocking::block_in_place::while_blocking;
use crate::engine::blocking::queued::{BlockOutcome, QueuedPlace, block_async};
use std::task::{self, Poll};
use std::{fmt, future::Future, pin::Pin};

/// Runs `block`, which blocks its thread (a system call, a foreign lock, a long computation). Inside a process, another
/// thread runs the other processes in the meantime, and the step continues when a worker is available. Outside of a
/// process, this only calls `block`.
///
/// This is for code without a `ctx`, such as a library called from a method. `block` may borrow; a panic in it is a
/// panic of the step, and its sends count as sent from outside. Costs a hand-off to another thread (some microseconds),
/// or a new thread if all existing ones block. If there are already as many threads as
/// [`Builder::blocking_threads`](crate::Builder::blocking_threads) allows, the call blocks its worker. Such calls are
/// counted and logged.
///
/// ```
/// use postroom::prelude::*;
///
/// #[process]
/// #[derive(Default)]
/// struct Reader;
///
/// #[process]
/// impl Reader {
///     #[entry]
///     fn serve(&mut self) {}
///     #[message]
///     fn length(&mut self, path: String) -> u64 {
///         postroom::block_in_place(|| std::fs::metadata(&path).map_or(0, |data| data.len()))
///     }
/// }
///
/// let runtime = Runtime::new()?;
/// let reader = runtime.spawn(Reader).serve()?;
/// assert_eq!(reader.length("/no/such/file".to_string()).wait()?, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn block_in_place<R>(block: impl FnOnce() -> R) -> R {
    unpolled(|| while_blocking(block))
}

/// A blocking operation that has not begun: await it in an async method, or call [`wait`](Self::wait) in a sync one.
/// Created by [`Context::blocking`].
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
    /// If the operation panics; its panic is passed on.
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
        match unpolled(|| block_async(run, place, context.waker())) {
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
    /// runs the other processes. In an async method, `run` starts when the returned value is awaited; in a sync one,
    /// when [`wait`](Blocking::wait) is called.
    ///
    /// `run` executes on this thread's stack, inside the step: it may borrow the method's locals and `self`, and a
    /// panic in it is a panic of the step. Its sends count as sent from outside. Once begun, it is not cancelled: a
    /// process that is killed in the meantime ends when `run` returns.
    ///
    /// Afterwards the step continues at once if a worker is idle. Otherwise an async method's process queues for its
    /// turn, and a sync method continues on the first worker that finishes a step. At most
    /// [`Builder::blocking_threads`](crate::Builder::blocking_threads) steps block at a time. If that many already
    /// block, an async method waits (if its future is dropped, `run` never starts). A sync method blocks its worker
    /// instead; such calls are counted and logged.
    ///
    /// Costs a hand-off to another thread (some microseconds), or a new thread if there is no spare one. In a machine
    /// that is driven by hand, this only calls `run`.
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

#[cfg(test)]
mod tests {
    use crate as postroom;
    use crate::prelude::*;
    use crate::util::block_on::block_on;
    use std::future::IntoFuture;
    use std::time::Duration;

    #[postroom::process(crate = crate)]
    struct Blocks {}

    #[postroom::process(crate = crate)]
    impl Blocks {
        #[entry]
        fn serve(&mut self) {}
        #[message]
        fn ping(&mut self) -> u32 {
            7
        }
        #[message]
        async fn call(&mut self, ctx: &mut Context<Self>, other: Address<Self>) -> u32 {
            ctx.blocking(|| block_on(other.ping().into_future())).await.expect("it answers")
        }
        #[message]
        async fn call_in_place(&mut self, other: Address<Self>) -> u32 {
            postroom::block_in_place(|| block_on(other.ping().into_future())).expect("it answers")
        }
        #[message]
        async fn sleep(&mut self, ctx: &mut Context<Self>) {
            ctx.blocking(|| block_on(ctx.sleep(Duration::from_millis(1)))).await;
        }
        #[message]
        async fn perform(&mut self, ctx: &mut Context<Self>) -> u32 {
            ctx.blocking(|| block_on(ctx.perform(Ask))).await.expect("there is a handler")
        }
        /// Not affected by the blocking code: a future that is polled in the method itself is served by the process.
        #[message]
        async fn call_after(&mut self, ctx: &mut Context<Self>, other: Address<Self>) -> u32 {
            ctx.blocking(|| ()).await;
            other.ping().await.expect("it answers")
        }
    }

    struct Ask;

    impl Command for Ask {
        type Output = u32;
    }

    /// Catches: an executor that blocking code runs is taken for the process. The answers then go to the process, which
    /// reads none while it is blocked.
    #[test]
    fn what_another_executor_awaits_in_blocking_code_of_an_async_method_comes() {
        let builder = Runtime::builder().workers(2).handler(|_: Ask, done| done.complete(9));
        let runtime = builder.build().expect("two workers");
        let spawn = || runtime.spawn(Blocks {}).serve().expect("it starts");
        let (blocks, other) = (spawn(), spawn());
        let limit = Duration::from_secs(60);
        assert_eq!(blocks.call(other).timeout(limit).wait(), Ok(7));
        assert_eq!(blocks.call_in_place(other).timeout(limit).wait(), Ok(7));
        assert_eq!(blocks.sleep().timeout(limit).wait(), Ok(()));
        assert_eq!(blocks.perform().timeout(limit).wait(), Ok(9));
        assert_eq!(blocks.call_after(other).timeout(limit).wait(), Ok(7));
    }
}
