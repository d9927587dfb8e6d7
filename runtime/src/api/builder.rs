//! Everything that can be chosen about a runtime, before it starts.

use super::runtime::{Host, Runtime};
use crate::actor::send::call::DEFAULT_TIMEOUT;
use crate::call::command::{Command, Completion};
use crate::call::dead_letter::DeadLetter;
use crate::engine::host::commands::Handlers;
use crate::engine::host::hooks::{Hook, Hooks};
use crate::engine::host::{Config, Identity, UserCode};
use crate::engine::io::reactor::Reactor;
#[cfg(feature = "tokio")]
use crate::engine::io::tokio::TokioChoice;
use crate::engine::permits::sleep::MAX_WORKERS;
use crate::engine::watchdog::detector;
use crate::engine::watchdog::report::Stall;
use crate::env::program::this_node;
use crate::errors::BuildError;
use crate::mailbox::bound::Bound;
use crate::routing::hosts::new_host;
use crate::sync::{Arc, cores};
use crate::time::virtual_clock::Clock;
use std::fmt;
use std::time::Duration;

/// The environment variable that says how many workers a runtime has, unless its builder does.
const WORKERS: &str = "POSTROOM_WORKERS";

/// How long a shutdown waits if nothing else is said.
const DEADLINE: Duration = Duration::from_secs(5);

/// How many threads a runtime may have besides one for each worker, if nothing else is said. As Tokio's blocking pool.
const BLOCKING_THREADS: usize = 512;

/// The most that can be asked for: more than a system gives.
const MOST_BLOCKING_THREADS: usize = 1 << 16;

/// How large the stack of a thread may be, in bytes: a step of an empty process fits into the smallest.
const STACKS: std::ops::RangeInclusive<usize> = 64 << 10..=1 << 30;

/// How long such a thread stays when it has nothing to do, if nothing else is said. As Tokio's.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// A runtime to be.
#[must_use = "nothing runs until `.build()`"]
pub struct Builder {
    name: Arc<str>,
    workers: Option<usize>,
    limit: Option<usize>,
    seed: Option<u64>,
    call_timeout: Duration,
    mailbox: Bound,
    deadline: Duration,
    paused: bool,
    clock: Clock,
    stall_limit: Duration,
    blocking_threads: usize,
    stack: Option<usize>,
    keep_alive: Duration,
    handlers: Handlers,
    hooks: Hooks,
    #[cfg(feature = "tokio")]
    tokio: TokioChoice,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// The defaults: a worker for each core, no limits.
    pub fn new() -> Self {
        Self {
            name: "postroom".into(),
            workers: None,
            limit: None,
            seed: None,
            call_timeout: DEFAULT_TIMEOUT,
            mailbox: Bound::DEFAULT,
            deadline: DEADLINE,
            paused: false,
            clock: Clock::system(),
            stall_limit: detector::LIMIT,
            blocking_threads: BLOCKING_THREADS,
            stack: None,
            keep_alive: KEEP_ALIVE,
            handlers: Handlers::default(),
            hooks: Hooks::default(),
            #[cfg(feature = "tokio")]
            tokio: TokioChoice::default(),
        }
    }

    /// The name of the host, which its threads carry too.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how many steps run at once at most, whatever `POSTROOM_WORKERS` says. From 1 to 1,024.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets how many processes may live at once. A spawn beyond that is refused.
    pub fn process_limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// What random choices are drawn from, so that they can be drawn again.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets how long calls made by the host's processes wait if nothing else is said, instead of [`DEFAULT_TIMEOUT`].
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// Sets how many messages the mailboxes of its processes may have, unless a spawn says otherwise: see
    /// [`Spawn::mailbox`]. A bound of zero, and a soft one above [`Bound::MOST_SOFT`], are refused.
    ///
    /// [`Spawn::mailbox`]: crate::Spawn::mailbox
    pub fn mailbox(mut self, bound: Bound) -> Self {
        self.mailbox = bound;
        self
    }

    /// Sets how long a shutdown waits for processes to end before it kills them.
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Starts no workers yet: what is spawned runs after [`Runtime::resume`].
    pub fn paused(mut self) -> Self {
        self.paused = true;
        self
    }

    /// What its processes see of time: the system's, or a clock that a test moves by hand. Several runtimes may share
    /// one.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// For how long a step may run while other processes wait for a worker; 10 ms if nothing else is said. One that
    /// runs longer is stalled: it loses its worker to another thread, is logged through `tracing`, shown to the
    /// [hook](Self::on_stall), and counted in
    /// [`WatchdogStatistics::stalls`](crate::inspect::WatchdogStatistics::stalls). [`Duration::MAX`]: never.
    ///
    /// It is noticed within five quarters of this by a thread of the host that looks on four times in that time (every
    /// 2.5 ms at most, every 250 µs at least) as long as any worker is not idle. A look costs some microseconds. Time
    /// is that of the system, also with a [clock](Self::clock) that a test moves.
    ///
    /// ```
    /// use postroom::Runtime;
    /// use std::time::Duration;
    ///
    /// let runtime = Runtime::builder().stall_limit(Duration::from_millis(50)).build()?;
    /// assert_eq!(runtime.host().statistics().watchdog.stalls, 0);
    /// # Ok::<(), postroom::error::BuildError>(())
    /// ```
    pub fn stall_limit(mut self, limit: Duration) -> Self {
        self.stall_limit = limit;
        self
    }

    /// Calls `hook` for each step that has run for too long while others waited: when that is noticed, and when the
    /// step has ended. It runs on a thread of its own: while it blocks, up to 256 reports wait; further ones are
    /// counted in [`WatchdogStatistics::stalls`](crate::inspect::WatchdogStatistics::stalls) and not told. A panic in
    /// it is contained.
    pub fn on_stall(mut self, hook: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        self.hooks.stall = Some(Box::new(hook));
        self
    }

    /// Sets how many threads there may be besides one for each worker: as many steps can block at a time, in
    /// `ctx.blocking(…)` and in the `.wait()`s, while others run with their workers. 512 if nothing is said; from 1 to
    /// 65,536.
    ///
    /// Beyond that an async `blocking` waits until a thread is free, and a sync one blocks its worker. Only a `.wait()`
    /// for another process may go beyond it, if all workers would be blocked else.
    pub fn blocking_threads(mut self, threads: usize) -> Self {
        self.blocking_threads = threads;
        self
    }

    /// Sets how many bytes of stack each thread has that runs processes, pinned ones too; rounded up by the system. Two
    /// mebibytes if nothing is said, or what the environment's `RUST_MIN_STACK` says; from 64 KiB to 1 GiB. Of a stack
    /// only what has been used takes memory.
    ///
    /// A process needs more than that if its methods recurse deeply, or if its messages, arguments and locals are large
    /// values: a message is on the stack up to three times while its method is called, and more often without
    /// optimization. A `Box` around what is large costs less.
    pub fn worker_stack_size(mut self, bytes: usize) -> Self {
        self.stack = Some(bytes);
        self
    }

    /// Sets how long a thread stays that was started because a step blocked, when it has nothing to do. Ten seconds if
    /// nothing is said; zero ends it at once.
    pub fn blocking_keep_alive(mut self, idle: Duration) -> Self {
        self.keep_alive = idle;
        self
    }

    /// Who handles commands of type `C`: `handle` gets the command and the completion to answer it with, on the worker
    /// whose process asked, so it should hand long work to someone else. A second handler for a type replaces the
    /// first.
    pub fn handler<C: Command>(mut self, handle: impl Fn(C, Completion<C::Output>) + Send + Sync + 'static) -> Self {
        self.handlers.add(handle);
        self
    }

    /// Someone to be told of each start and end.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hooks.hooks.push(Box::new(hook));
        self
    }

    /// Who is shown the messages that no process will handle any more. A panic in it is contained.
    pub fn on_dead_letter(mut self, hook: impl Fn(DeadLetter) + Send + Sync + 'static) -> Self {
        self.hooks.dead_letter = Some(Box::new(hook));
        self
    }

    /// Has Tokio's sockets, timers, files and tasks work inside the processes, and in what [`Runtime::block_on`] runs:
    /// the host has a Tokio runtime of its own, which ends with it.
    ///
    /// The workers drive it: one that has nothing to do waits for the system there, and busy ones look in every so many
    /// steps, so a socket wakes its process without a thread in between. It costs no step anything. What `tokio::spawn`
    /// is given runs on the workers too, between two steps, with the rights that it has in any Tokio program: it should
    /// not block. While all workers are in long steps, a thread of the runtime's own takes their place there.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use tokio::net::{TcpListener, TcpStream};
    ///
    /// #[process]
    /// struct Greeter;
    ///
    /// #[process]
    /// impl Greeter {
    ///     /// Writes one line to the first who connects.
    ///     #[entry]
    ///     async fn greet(&mut self, listener: TcpListener) -> std::io::Result<()> {
    ///         let (stream, _) = listener.accept().await?;
    ///         stream.writable().await?;
    ///         stream.try_write(b"hello\n").map(drop)
    ///     }
    /// }
    ///
    /// let runtime = Runtime::builder().tokio().build()?;
    /// let line = runtime.block_on(async {
    ///     let listener = TcpListener::bind("127.0.0.1:0").await?;
    ///     let address = listener.local_addr()?;
    ///     let greeter = runtime.spawn(Greeter).greet(listener)?;
    ///     let stream = TcpStream::connect(address).await?;
    ///     greeter.await?;
    ///     stream.readable().await?;
    ///     let mut line = [0; 6];
    ///     stream.try_read(&mut line)?;
    ///     Ok::<_, Box<dyn std::error::Error>>(line)
    /// })?;
    /// assert_eq!(&line, b"hello\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tokio")]
    pub fn tokio(mut self) -> Self {
        self.tokio = TokioChoice::Own;
        self
    }

    /// The same with a Tokio runtime that the program has already: `tokio_handle(Handle::current())` inside of
    /// `#[tokio::main]`. No thread is added; the program has to let that runtime live longer than this one. Inside
    /// it wait for the end with [`Runtime::shutdown_async`]: a drop or a shutdown that blocks its thread also keeps it
    /// from bringing what processes need to end, until the deadline.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use std::time::Duration;
    /// use tokio::runtime::Handle;
    ///
    /// #[process]
    /// struct Sleeper;
    ///
    /// #[process]
    /// impl Sleeper {
    ///     #[entry]
    ///     async fn nap(&mut self) -> &'static str {
    ///         tokio::time::sleep(Duration::from_millis(1)).await;
    ///         "awake"
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // What `#[tokio::main]` makes of `async fn main`.
    /// tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    ///     let runtime = Runtime::builder().tokio_handle(Handle::current()).build()?;
    ///     assert_eq!(runtime.spawn(Sleeper).nap()?.await?, "awake");
    ///     assert!(runtime.shutdown_async().await?.is_clean());
    ///     Ok(())
    /// })
    /// # }
    /// ```
    #[cfg(feature = "tokio")]
    pub fn tokio_handle(mut self, handle: tokio::runtime::Handle) -> Self {
        self.tokio = TokioChoice::Given(handle);
        self
    }

    /// Starts the runtime.
    ///
    /// # Errors
    /// For a number of workers that is none, a limit of zero of processes, messages or time, a bound of threads that is
    /// none, or threads that the system does not give.
    pub fn build(mut self) -> Result<Runtime, BuildError> {
        let workers = self.count_workers()?;
        if self.limit == Some(0) {
            return Err(BuildError::Limit);
        }
        self.mailbox.check()?;
        if self.stall_limit.is_zero() {
            return Err(BuildError::StallLimit);
        }
        if let Some(came) = self.stack.filter(|bytes| !STACKS.contains(bytes)) {
            return Err(BuildError::StackSize { came, least: *STACKS.start(), most: *STACKS.end() });
        }
        if !(1..=MOST_BLOCKING_THREADS).contains(&self.blocking_threads) {
            return Err(BuildError::BlockingThreads { came: self.blocking_threads, most: MOST_BLOCKING_THREADS });
        }
        let reactor = self.start_reactor()?;
        let config = Config {
            name: self.name,
            node: this_node(),
            permits: workers,
            limit: self.limit,
            call_timeout: self.call_timeout,
            mailbox: self.mailbox,
            stall_limit: self.stall_limit,
            blocking_threads: self.blocking_threads,
            stack: self.stack,
            keep_alive: self.keep_alive,
        };
        let user = UserCode { dispatcher: self.handlers.freeze(), hooks: self.hooks, reactor };
        let seed = self.seed.unwrap_or_else(crate::env::chance::entropy);
        let identity = Identity { number: new_host(), seed, clock: self.clock };
        let runtime = Runtime::of(Host::new(config, identity, user), self.deadline);
        if !self.paused {
            runtime.resume()?;
        }
        Ok(runtime)
    }

    #[cfg(not(feature = "tokio"))]
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "as with the feature `tokio`")]
    fn start_reactor(&mut self) -> Result<Option<Box<dyn Reactor>>, BuildError> {
        Ok(None)
    }

    #[cfg(feature = "tokio")]
    fn start_reactor(&mut self) -> Result<Option<Box<dyn Reactor>>, BuildError> {
        std::mem::take(&mut self.tokio).start(&self.name).map_err(BuildError::Reactor)
    }

    fn count_workers(&self) -> Result<usize, BuildError> {
        let refuse = |from, came| Err(BuildError::Workers { from, came, most: MAX_WORKERS });
        if let Some(workers) = self.workers {
            let fits = (1..=MAX_WORKERS).contains(&workers);
            return if fits { Ok(workers) } else { refuse("the builder", workers.to_string()) };
        }
        match std::env::var_os(WORKERS) {
            None => Ok(cores().min(MAX_WORKERS)),
            Some(text) => match text.to_str().and_then(|text| text.trim().parse().ok()) {
                Some(workers) if (1..=MAX_WORKERS).contains(&workers) => Ok(workers),
                _ => refuse(WORKERS, text.to_string_lossy().chars().take(80).collect()),
            },
        }
    }
}

impl Runtime {
    /// A runtime with as many workers as the machine has cores, or as `POSTROOM_WORKERS` says.
    ///
    /// # Errors
    /// If `POSTROOM_WORKERS` is nonsense, or if the threads cannot be started.
    pub fn new() -> Result<Self, BuildError> {
        Builder::new().build()
    }

    /// A runtime to be, with everything that can be chosen.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("name", &self.name).field("workers", &self.workers).finish_non_exhaustive()
    }
}
