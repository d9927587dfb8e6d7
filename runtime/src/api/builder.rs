//! The configuration of a runtime.

use super::runtime::{Host, Runtime};
use crate::call::dead_letter::DeadLetter;
use crate::engine::host::commands::Handlers;
use crate::engine::host::hooks::{Hook, Hooks};
use crate::engine::host::{Config, Identity, UserCode};
#[cfg(feature = "tokio")]
use crate::engine::io::tokio::TokioChoice;
use crate::engine::{permits::sleep::MAX_WORKERS, watchdog::detector, watchdog::report::Stall};
use crate::sync::{Arc, cores};
use crate::{
    Bound, Command, Completion, DEFAULT_TIMEOUT, NodeId, env::program::program_node, errors::BuildError,
    routing::hosts::belongs_to, routing::hosts::new_host, time::virtual_clock::Clock,
};
use std::time::Duration;

/// The environment variable that sets the number of workers. The builder takes precedence over it.
const WORKERS: &str = "POSTROOM_WORKERS";

const DEADLINE: Duration = Duration::from_secs(5);

/// The default number of threads in addition to the workers. Tokio's blocking pool has the same default.
const BLOCKING_THREADS: usize = 512;

/// The largest number of such threads that can be configured. It is more than a system supports.
const MOST_BLOCKING_THREADS: usize = 1 << 16;

/// The allowed stack sizes, in bytes. The smallest is large enough for a step of an empty process.
const STACKS: std::ops::RangeInclusive<usize> = 64 << 10..=1 << 30;

/// The default time for which an idle blocking thread is kept, as in Tokio.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Configures and builds a [`Runtime`]. Invalid settings are reported by [`build`](Self::build).
///
/// ```
/// use postroom::prelude::*;
/// use std::time::Duration;
///
/// let runtime = Runtime::builder()
///     .name("orders")
///     .workers(2)
///     .process_limit(100_000)
///     .call_timeout(Duration::from_secs(1))
///     .mailbox(Bound::Soft(10_000))
///     .on_dead_letter(|letter| eprintln!("{} did not handle {letter:?}", letter.to))
///     .build()?;
/// assert_eq!((runtime.name(), runtime.workers()), ("orders", 2));
/// # Ok::<(), postroom::error::BuildError>(())
/// ```
#[must_use = "nothing runs until `.build()`"]
pub struct Builder {
    /// The configuration, complete except for the number of workers.
    config: Config,
    workers: Option<usize>,
    seed: Option<u64>,
    deadline: Duration,
    paused: bool,
    clock: Clock,
    handlers: Handlers,
    hooks: Hooks,
    #[cfg(feature = "tokio")]
    tokio: TokioChoice,
    /// The logical node that the host belongs to. `None` if it belongs to the program's node.
    node: Option<NodeId>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Returns a builder with the defaults: one worker for each core, or the number in `POSTROOM_WORKERS`; mailboxes
    /// with [`Bound::DEFAULT`]; and no limit on the number of processes.
    pub fn new() -> Self {
        let config = Config {
            name: "postroom".into(),
            permits: 0,
            limit: None,
            call_timeout: DEFAULT_TIMEOUT,
            mailbox: Bound::DEFAULT,
            stall_limit: detector::LIMIT,
            blocking_threads: BLOCKING_THREADS,
            stack: None,
            keep_alive: KEEP_ALIVE,
        };
        Self {
            config,
            workers: None,
            seed: None,
            deadline: DEADLINE,
            paused: false,
            clock: Clock::system(),
            handlers: Handlers::default(),
            hooks: Hooks::default(),
            #[cfg(feature = "tokio")]
            tokio: TokioChoice::default(),
            node: None,
        }
    }

    /// Names the host. Its threads carry the name too. The default is `postroom`. Several hosts may have the same name.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.config.name = name.into();
        self
    }

    /// Sets the number of workers, from 1 to 1,024. It is the number of steps that can run at once. Overrides
    /// `POSTROOM_WORKERS`.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Limits how many processes may be alive at once: further spawns fail with
    /// [`SpawnError::Limit`](crate::SpawnError::Limit). Unlimited by default; zero is refused. Costs each spawn and
    /// exit an atomic operation on a shared counter.
    pub fn process_limit(mut self, limit: usize) -> Self {
        self.config.limit = Some(limit);
        self
    }

    /// Seeds the random choices of the scheduler, such as where to steal. The seed determines these choices, but not
    /// the order in which threads run: for tests that repeat exactly, use [simulations](mod@crate::test).
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the default timeout of calls by the host's processes, and of calls to them from outside of processes.
    /// Without this, it is [`DEFAULT_TIMEOUT`]. See [`Call::timeout`](crate::Call::timeout) for zero and
    /// [`Duration::MAX`].
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.config.call_timeout = timeout;
        self
    }

    /// Sets the default bound of the mailboxes of the host's processes, which a spawn can override: see
    /// [`Spawn::mailbox`]. Zero, and a soft bound above [`Bound::MOST_SOFT`], are refused.
    ///
    /// [`Spawn::mailbox`]: crate::Spawn::mailbox
    pub fn mailbox(mut self, bound: Bound) -> Self {
        self.config.mailbox = bound;
        self
    }

    /// Sets how long a shutdown, and the drop of the [`Runtime`], waits for processes to end before it kills them.
    /// The default is five seconds. Zero kills them at once; with [`Duration::MAX`], they are never killed.
    pub fn shutdown_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Builds the runtime without starting its workers. Until [`Runtime::resume`], messages are queued; sync entries do
    /// run, on the spawner's thread.
    pub fn paused(mut self) -> Self {
        self.paused = true;
        self
    }

    /// Sets the clock of the processes: the system's, or one that a test advances. Runtimes may share a clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets how long a step may run while other processes wait for a worker; the default is 10 ms. A step that runs
    /// longer counts as stalled: its permit passes to another thread, and the stall is logged through `tracing`,
    /// reported to the [hook](Self::on_stall), and counted in
    /// [`WatchdogStatistics::stalls`](crate::inspect::WatchdogStatistics::stalls). [`Duration::MAX`] disables this.
    ///
    /// The host's watchdog notices a stall within 1.25 times the limit. While any worker is busy, it samples four times
    /// per limit, but no more often than every 250 µs and no less often than every 2.5 ms. A sample costs a few
    /// microseconds. It uses the system's time, even with a [virtual clock](Self::clock).
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
        self.config.stall_limit = limit;
        self
    }

    /// Calls `hook` twice for each stalled step: when the stall is noticed, and when the step has ended. The hook runs
    /// on a thread that does nothing else; a second hook replaces the first. While it blocks, up to 256 reports are
    /// queued; further ones are only counted in
    /// [`WatchdogStatistics::stalls`](crate::inspect::WatchdogStatistics::stalls). A panic in it is contained.
    ///
    /// A step has stalled only if other processes wait for a worker meanwhile. Tasks of Tokio that wait for the thread,
    /// with `on_tokio`, do not count.
    pub fn on_stall(mut self, hook: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        self.hooks.stall = Some(Box::new(hook));
        self
    }

    /// Sets the maximum number of threads in addition to the workers. It is the number of steps that can block at a
    /// time, in `ctx.blocking(…)` and in `.wait()`, while the workers run other processes. It can be from 1 to 65,536;
    /// the default is 512.
    ///
    /// Beyond that, an async `blocking` waits for a thread and a sync one blocks its worker. Only a `.wait()` for
    /// another process may exceed the limit, if all workers would be blocked otherwise.
    pub fn blocking_threads(mut self, threads: usize) -> Self {
        self.config.blocking_threads = threads;
        self
    }

    /// Sets the stack size of the threads that run processes, pinned ones included, in bytes, from 64 KiB to 1 GiB; the
    /// system rounds it up. The default is the environment's `RUST_MIN_STACK`, or two mebibytes. Only the part of a
    /// stack that was used takes memory.
    ///
    /// Increase it for methods that recurse deeply, or whose messages, arguments and locals are large values: a message
    /// is on the stack up to three times while its method is called, and more often without optimization. A `Box`
    /// around a large value costs less.
    pub fn worker_stack_size(mut self, bytes: usize) -> Self {
        self.config.stack = Some(bytes);
        self
    }

    /// Sets how long a thread that was started because a step blocked is kept while it is idle. The default is ten
    /// seconds; zero ends such a thread at once.
    pub fn blocking_keep_alive(mut self, idle: Duration) -> Self {
        self.config.keep_alive = idle;
        self
    }

    /// Sets the handler of commands of type `C`. `handle` gets the command and the completion with which to answer it.
    /// It runs on the worker whose process performs the command, so it should hand off long work. A second handler for
    /// a type replaces the first.
    pub fn handler<C: Command>(mut self, handle: impl Fn(C, Completion<C::Output>) + Send + Sync + 'static) -> Self {
        self.handlers.add(handle);
        self
    }

    /// Adds a hook that is called at each start and end of a process: see [`Hook`]. At a start, hooks are called in the
    /// order in which they were added. Each spawn and exit costs the time of these calls.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hooks.hooks.push(Box::new(hook));
        self
    }

    /// Sets a hook for messages that no process will handle. It runs on the thread that encounters the message, so it
    /// should be short. A panic in it is contained. A second hook replaces the first.
    ///
    /// For messages from other nodes, the hook runs on a separate thread, for one message at a time. While 65,536
    /// messages wait for it, further ones are only counted.
    pub fn on_dead_letter(mut self, hook: impl Fn(DeadLetter) + Send + Sync + 'static) -> Self {
        self.hooks.dead_letter = Some(Box::new(hook));
        self
    }

    /// Lets Tokio's sockets, timers, files and tasks work inside the processes and in [`Runtime::block_on`]: the host
    /// has its own Tokio runtime, and that runtime ends with the host.
    ///
    /// The workers drive that Tokio runtime: an idle worker waits in it for events of the system, and busy workers poll
    /// it regularly between steps, so a socket wakes its process without a thread in between. Steps do not become
    /// slower. Tasks from `tokio::spawn` run on the workers too, between two steps, and must not block, as in any Tokio
    /// program. While all workers are in long steps, a thread of the host drives it in their place.
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
    ///     /// Writes one line to the first client.
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

    /// Uses an existing Tokio runtime: `tokio_handle(Handle::current())` inside `#[tokio::main]`. No thread is added.
    /// The Tokio runtime must outlive this one. Inside it, wait for the end of this runtime with
    /// [`Runtime::shutdown_async`]: until the deadline, a drop or a blocking shutdown would also keep the calling
    /// thread from running the tasks that processes need to end.
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

    /// Runs the processes on the threads of a Tokio runtime: `on_tokio(Handle::current())` inside `#[tokio::main]`.
    ///
    /// A task that calls a process, and that process, then share their threads, and no thread has to be woken for
    /// another. With [`tokio_handle`](Self::tokio_handle), they have threads of their own, and each call and each
    /// answer wakes one: choose that if processes compute for long, and the tasks of Tokio must not wait for them.
    ///
    /// The runtime has as many workers as Tokio has threads, unless [`workers`](Self::workers) sets another number.
    /// Each worker is a task of Tokio. Everything else is as on threads of its own: a step that blocks or that does not
    /// end holds up no other process, since a thread of this runtime's own takes its place (it holds up the tasks of
    /// Tokio that its thread has queued, like any task that blocks; `ctx.blocking` moves them to another thread). If no
    /// thread of Tokio comes to run a process that has work, a thread of this runtime's own does, after 10 to 60 ms; so
    /// processes also run, and end, while all threads of Tokio are stuck, and after Tokio has been shut down.
    ///
    /// Timers are as exact as those of Tokio, which count milliseconds. Stacks are those of Tokio's threads:
    /// [`worker_stack_size`](Self::worker_stack_size) applies to this runtime's own.
    ///
    /// # Panics
    /// Tokio's timer must be enabled; otherwise Tokio panics in the task of a worker, and the workers continue on
    /// threads of this runtime's own.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use tokio::runtime::Handle;
    ///
    /// #[process]
    /// struct Greeter;
    ///
    /// #[process]
    /// impl Greeter {
    ///     #[entry]
    ///     fn serve(&mut self) {}
    ///     #[message]
    ///     fn greet(&mut self, name: &'static str) -> String {
    ///         format!("Hello, {name}!")
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // What `#[tokio::main]` makes of `async fn main`.
    /// tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
    ///     let runtime = Runtime::builder().on_tokio(Handle::current()).build()?;
    ///     let greeter = runtime.spawn(Greeter).serve()?;
    ///     assert_eq!(greeter.greet("world").await?, "Hello, world!");
    ///     assert!(runtime.shutdown_async().await?.is_clean());
    ///     Ok(())
    /// })
    /// # }
    /// ```
    #[cfg(feature = "tokio")]
    pub fn on_tokio(mut self, handle: tokio::runtime::Handle) -> Self {
        self.tokio = TokioChoice::Under(handle);
        self
    }

    /// Makes the runtime a node of its own, for simulations and tests of code that runs on several nodes: its PIDs
    /// name `node`, and [`this_node`](crate::this_node) in its processes is `node`.
    ///
    /// Everything that a process of this runtime sends to another node (a message, a call, a link, a stop) goes to
    /// the transport that [`Router::of_node`](crate::routing::Router::of_node) has for that node, and is refused if
    /// there is none, although both are in one program. The same applies in the other direction. Runtimes with the
    /// same `node` form one node, and those without one belong to the program's node. Code outside of runtimes, such
    /// as a test, is an observer: it reaches the processes of all nodes directly, unless it acts as one of them with
    /// [`Node::enter`](crate::routing::Node::enter). Names, groups and topics belong to a host, and are not separated
    /// by node.
    ///
    /// ```
    /// use postroom::prelude::*;
    /// use postroom::{NodeId, this_node};
    ///
    /// # #[process] struct Account;
    /// # #[process]
    /// # impl Account { #[entry] fn serve(&mut self) {} #[message] fn node(&mut self) -> NodeId { this_node() } }
    /// let node = NodeId::random();
    /// let runtime = Runtime::builder().logical_node(node).build()?;
    /// let account = runtime.spawn(Account).serve()?;
    /// assert_eq!(account.pid().node(), node);
    /// assert_eq!(account.node().wait()?, node);
    /// assert_ne!(this_node(), node);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "test")]
    pub fn logical_node(mut self, node: NodeId) -> Self {
        self.node = Some(node);
        self
    }

    /// Starts the runtime, that is, its workers and a watchdog, each on its own thread. Dropping the [`Runtime`] ends
    /// them.
    ///
    /// # Errors
    /// [`BuildError`] for an invalid number of workers or threads, an invalid stack size or mailbox bound, a process
    /// limit or stall limit of zero, or threads or other resources that the system refuses;
    /// [`Simulated`](BuildError::Simulated) in a simulated test.
    pub fn build(self) -> Result<Runtime, BuildError> {
        if crate::sync::simulated::is_here() {
            return Err(BuildError::Simulated);
        }
        #[cfg(all(feature = "test", feature = "tokio"))]
        let this = Self { tokio: self.tokio.for_tests(), ..self };
        #[cfg(not(all(feature = "test", feature = "tokio")))]
        let this = self;
        this.build_anywhere()
    }

    /// Builds the runtime, for a simulation too. (A simulation takes the place of the runtime's workers.)
    pub(crate) fn build_anywhere(mut self) -> Result<Runtime, BuildError> {
        self.config.permits = self.count_workers()?;
        let Config { limit, mailbox, stall_limit, blocking_threads, stack, .. } = &self.config;
        if *limit == Some(0) {
            return Err(BuildError::Limit);
        }
        mailbox.check()?;
        if stall_limit.is_zero() {
            return Err(BuildError::StallLimit);
        }
        if let Some(came) = stack.filter(|bytes| !STACKS.contains(bytes)) {
            return Err(BuildError::StackSize { came, least: *STACKS.start(), most: *STACKS.end() });
        }
        if !(1..=MOST_BLOCKING_THREADS).contains(blocking_threads) {
            return Err(BuildError::BlockingThreads { came: *blocking_threads, most: MOST_BLOCKING_THREADS });
        }
        #[cfg(feature = "tokio")]
        let reactor = self.tokio.start(&self.config.name).map_err(BuildError::Reactor)?;
        #[cfg(not(feature = "tokio"))]
        let reactor = None;
        let user = UserCode { handlers: self.handlers, hooks: self.hooks, reactor };
        let seed = crate::env::chance::seed(self.seed);
        let node = self.node.unwrap_or_else(program_node);
        let number = new_host();
        belongs_to(number, node);
        let identity = Identity { node, number, seed, clock: self.clock };
        let runtime = Runtime { host: Host::new(self.config, identity, user), deadline: self.deadline };
        if !self.paused {
            runtime.resume()?;
        }
        Ok(runtime)
    }

    fn default_workers(&self) -> usize {
        #[cfg(feature = "tokio")]
        if let Some(threads) = self.tokio.threads() {
            return threads;
        }
        cores()
    }

    fn count_workers(&self) -> Result<usize, BuildError> {
        let refuse = |from, came| Err(BuildError::Workers { from, came, most: MAX_WORKERS });
        if let Some(workers) = self.workers {
            let fits = (1..=MAX_WORKERS).contains(&workers);
            return if fits { Ok(workers) } else { refuse("the builder", workers.to_string()) };
        }
        match std::env::var_os(WORKERS) {
            None => Ok(self.default_workers().min(MAX_WORKERS)),
            Some(text) => match text.to_str().and_then(|text| text.trim().parse().ok()) {
                Some(workers) if (1..=MAX_WORKERS).contains(&workers) => Ok(workers),
                _ => refuse(WORKERS, text.to_string_lossy().chars().take(80).collect()),
            },
        }
    }
}

impl Runtime {
    /// Starts a runtime with one worker per core, or the number in `POSTROOM_WORKERS`.
    ///
    /// # Errors
    /// [`BuildError`] if `POSTROOM_WORKERS` is invalid, or if threads cannot be started.
    pub fn new() -> Result<Self, BuildError> {
        Builder::new().build()
    }

    /// Returns a builder for a runtime with other options.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

crate::util::debug::impl_debug!([] Builder, self => "Builder" { name: self.config.name, workers: self.workers, .. });
