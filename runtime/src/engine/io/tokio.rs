//! Tokio inside the workers: with the feature `tokio`, a host's threads run processes within a Tokio runtime.
//!
//! That runtime is either the program's own ([`Builder::tokio_handle`](crate::Builder::tokio_handle)), which drives
//! itself, or one of the host's ([`Builder::tokio`](crate::Builder::tokio)), which the host's threads drive (see
//! `engine/sched/driving`): an idle worker waits for the system in that runtime, and busy workers poll it. Either way,
//! processes run on Postroom's workers. The sockets and timers that they await are registered with Tokio, and Tokio
//! wakes the processes.
//!
//! Tokio's current-thread runtime may be driven by any thread, one at a time. A thread drives it by calling `block_on`
//! with a future that becomes ready when the thread must stop driving; a callback that Tokio calls after waiting makes
//! the future ready before any task runs.
//!
//! A *fallback* thread drives it while no other thread does: before the host's threads start, and while all of them are
//! in long steps. The fallback thread also ends the runtime, when the host's shutdown requests that: after the last
//! process has ended, since its clean-up may still use sockets. Ending the runtime drops the remaining tasks, and waits
//! briefly for the threads of `spawn_blocking`.

use super::reactor::{Driver, PermitTask, PermitTasks, Reactor, TaskPoll};
use crate::env::clock::instant_now;
use crate::sync::{
    Arc, AtomicBool, AtomicU64, Condvar, JoinHandle, Mutex, MutexGuard, Ordering, ThreadKind, current_thread, lock,
    spawn_thread, try_lock, wait,
};
use crate::util::oneshot::Oneshot;
#[cfg(feature = "test")]
use crate::{env::world::World, sync::OnceLock};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::time::Sleep;

#[derive(Default)]
pub(crate) enum TokioChoice {
    #[default]
    None,
    Own,
    Given(Handle),
    Under(Handle),
}

/// How long to wait for the threads of `spawn_blocking`.
const PATIENCE: Duration = Duration::from_millis(100);

impl TokioChoice {
    pub(crate) fn start(self, name: &str) -> io::Result<Option<Box<dyn Reactor>>> {
        Ok(match self {
            Self::None => None,
            Self::Own => Some(Box::new(Own::start(name)?)),
            Self::Given(handle) => Some(Box::new(BorrowedTokio { handle, runs_processes: false })),
            Self::Under(handle) => Some(Box::new(BorrowedTokio { handle, runs_processes: true })),
        })
    }

    /// With `POSTROOM_TEST_ON_TOKIO` set, replaces [`None`](Self::None) by a Tokio runtime of the program, so that
    /// tests can be repeated on its threads.
    #[cfg(feature = "test")]
    pub(crate) fn for_tests(self) -> Self {
        static TOKIO: World<OnceLock<Runtime>> = World::new(OnceLock::new());
        if !matches!(self, Self::None) || std::env::var_os("POSTROOM_TEST_ON_TOKIO").is_none() {
            return self;
        }
        let new = || Runtime::new().expect("the system has room for its threads");
        Self::Under(TOKIO.get_or_init(new).handle().clone())
    }

    /// Returns the number of threads that run the host's processes, if Tokio provides them.
    pub(crate) fn threads(&self) -> Option<usize> {
        match self {
            Self::Under(handle) => Some(handle.metrics().num_workers()),
            Self::None | Self::Own | Self::Given(_) => None,
        }
    }
}

/// Runs `body` within the runtime of `handle`. While a thread's thread-locals are destroyed, Tokio's own may be gone.
fn within(handle: &Handle, body: &mut dyn FnMut()) {
    let is_gone = Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed());
    let _entered = (!is_gone).then(|| handle.enter());
    body();
}

/// The program's own runtime.
struct BorrowedTokio {
    handle: Handle,
    /// Whether its threads run the processes.
    runs_processes: bool,
}

impl Reactor for BorrowedTokio {
    fn within(&self, body: &mut dyn FnMut()) {
        within(&self.handle, body);
    }

    fn driver(&self) -> Option<&dyn Driver> {
        None
    }

    fn tasks(&self) -> Option<&dyn PermitTasks> {
        self.runs_processes.then_some(self)
    }

    fn end(&self, _: Duration) {}
}

impl PermitTasks for BorrowedTokio {
    fn spawn(&self, permit: Arc<dyn PermitTask>) {
        let task = PermitFuture { permit: Some(permit), timer: None };
        // Processes poll Tokio's resources, which would otherwise pretend to be busy once one drive has used many.
        drop(self.handle.spawn(tokio::task::unconstrained(task)));
    }

    fn while_blocking(&self, body: &mut dyn FnMut()) {
        match self.handle.runtime_flavor() {
            RuntimeFlavor::MultiThread => tokio::task::block_in_place(body),
            _ => body(),
        }
    }
}

/// The task of a permit.
struct PermitFuture {
    /// `None` once the permit is over.
    permit: Option<Arc<dyn PermitTask>>,
    /// A timer that ends a rest, at its deadline or before, and the moment to which the timer is set.
    timer: Option<(Pin<Box<Sleep>>, Instant)>,
}

impl Future for PermitFuture {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { permit, timer } = &mut *self;
        let Some(driven) = permit else { return Poll::Ready(()) };
        match driven.poll(context.waker()) {
            TaskPoll::Over => {
                *permit = None;
                return Poll::Ready(());
            }
            TaskPoll::Again => context.waker().wake_by_ref(),
            TaskPoll::Rests(None) => {}
            TaskPoll::Rests(Some(until)) => {
                if poll_timer(timer, until, context).is_ready() {
                    // Behind other tasks: if Tokio's clock is paused, its time is ahead of the real time.
                    context.waker().wake_by_ref();
                }
            }
        }
        Poll::Pending
    }
}

impl Drop for PermitFuture {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.leave();
        }
    }
}

struct Own {
    handle: Handle,
    shared: Arc<TokioShared>,
    /// The thread that drives the runtime while no other does. Taken by the thread that joins it.
    fallback: Mutex<Option<JoinHandle<()>>>,
    fallback_id: ThreadId,
    ended: Arc<Oneshot<()>>,
}

struct TokioShared {
    /// Locked by the thread that drives the runtime. `None` when the runtime has ended.
    core: Mutex<Option<Core>>,
    block_on: Arc<BlockOn>,
    driven: AtomicU64,
    /// The value of `driven` at the most recent call of `tend`.
    tended: AtomicU64,
    request: Mutex<FallbackRequest>,
    requested: Condvar,
}

struct Core {
    runtime: Runtime,
    /// A timer that ends a wait, at its deadline or before, and the moment to which the timer is set.
    timer: Option<(Pin<Box<Sleep>>, Instant)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FallbackRequest {
    Rest,
    Drive,
    End,
}

#[derive(Default)]
struct BlockOn {
    has_waited: AtomicBool,
    /// The waker of the future in `block_on`. It is the same in all calls.
    waker: Mutex<Option<Waker>>,
}

impl BlockOn {
    fn wake(&self) {
        if let Some(waker) = &*lock(&self.waker) {
            waker.wake_by_ref();
        }
    }

    fn keep(&self, waker: &Waker) {
        let mut kept = lock(&self.waker);
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }
}

impl Own {
    fn start(name: &str) -> io::Result<Self> {
        let block_on = Arc::new(BlockOn::default());
        // The reference is weak, since the waker in `BlockOn` holds Tokio's runtime, and with it this callback: a cycle
        // would keep the reactor and its file descriptors forever. Driving threads hold the `BlockOn`, so no wait is
        // missed.
        let waited = Arc::downgrade(&block_on);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .thread_name(format!("{name}-blocking").replace('\0', " "))
            .on_thread_unpark(move || {
                if let Some(block_on) = waited.upgrade() {
                    // The future checks this flag.
                    block_on.has_waited.store(true, Ordering::Relaxed);
                    block_on.wake();
                }
            })
            .build()?;
        let handle = runtime.handle().clone();
        let shared = Arc::new(TokioShared {
            core: Mutex::new(Some(Core { runtime, timer: None })),
            block_on,
            driven: AtomicU64::new(0),
            tended: AtomicU64::new(0),
            request: Mutex::new(FallbackRequest::Drive),
            requested: Condvar::new(),
        });
        let ended = Arc::new(Oneshot::new());
        let (theirs, end) = (shared.clone(), ended.clone());
        let fallback = spawn_thread(ThreadKind::Reactor, format!("{name}-reactor"), move || {
            theirs.fall_back();
            end.put(());
        })?;
        let fallback_id = fallback.thread().id();
        Ok(Self { handle, shared, fallback: Mutex::new(Some(fallback)), fallback_id, ended })
    }
}

impl Reactor for Own {
    fn within(&self, body: &mut dyn FnMut()) {
        within(&self.handle, body);
    }

    fn driver(&self) -> Option<&dyn Driver> {
        Some(self)
    }

    fn end(&self, patience: Duration) {
        self.shared.request(FallbackRequest::End);
        // A task that does not return keeps its thread, which is then left behind.
        if self.ended.wait(instant_now().checked_add(patience)).is_some()
            && let Some(thread) = lock(&self.fallback).take()
        {
            let _ended = thread.join();
        }
    }
}

/// Ends the runtime if no thread waits for the shutdown.
impl Drop for Own {
    fn drop(&mut self) {
        self.shared.request(FallbackRequest::End);
    }
}

impl Driver for Own {
    fn visit(&self) {
        let Some(mut core) = self.shared.take_core() else { return };
        let Some(core) = &mut *core else { return };
        let mut again = true;
        core.runtime.block_on(poll_fn(|context| {
            if !std::mem::take(&mut again) {
                return Poll::Ready(());
            }
            // Tokio checks the system, and runs tasks, before it polls this future again.
            context.waker().wake_by_ref();
            Poll::Pending
        }));
    }

    fn wait(&self, patience: Option<Duration>, is_called: &mut dyn FnMut(&Waker) -> bool) -> bool {
        let shared = &*self.shared;
        let Some(mut core) = shared.take_core() else { return false };
        let Some(Core { runtime, timer }) = &mut *core else { return false };
        let until = patience.and_then(|patience| instant_now().checked_add(patience));
        shared.block_on.has_waited.store(false, Ordering::Relaxed);
        runtime.block_on(poll_fn(|context| {
            shared.block_on.keep(context.waker());
            if shared.block_on.has_waited.load(Ordering::Relaxed) || is_called(context.waker()) {
                return Poll::Ready(());
            }
            match until {
                Some(until) => poll_timer(timer, until, context),
                None => Poll::Pending,
            }
        }));
        true
    }

    fn has_tasks(&self) -> bool {
        self.handle.metrics().num_alive_tasks() > 0
    }

    fn is_fallback(&self) -> bool {
        current_thread().id() == self.fallback_id
    }

    fn tend(&self) {
        let driven = self.shared.driven.load(Ordering::Relaxed);
        if self.shared.tended.swap(driven, Ordering::Relaxed) == driven && try_lock(&self.shared.core).is_some() {
            self.shared.request(FallbackRequest::Drive);
        }
    }
}

/// Becomes ready at `until`, or earlier if the timer is already set to an earlier moment. The timer is rarely reset:
/// the deadlines of calls, the most common waits, move forward with time.
fn poll_timer(timer: &mut Option<(Pin<Box<Sleep>>, Instant)>, until: Instant, context: &mut Context<'_>) -> Poll<()> {
    let (sleep, set) = timer.get_or_insert_with(|| (Box::pin(tokio::time::sleep_until(until.into())), until));
    if *set > until || sleep.is_elapsed() {
        sleep.as_mut().reset(until.into());
        *set = until;
    }
    sleep.as_mut().poll(context)
}

impl TokioShared {
    /// Takes the right to drive, if it is free; otherwise asks the fallback thread to release it.
    fn take_core(&self) -> Option<MutexGuard<'_, Option<Core>>> {
        let core = try_lock(&self.core);
        if core.is_some() {
            self.driven.fetch_add(1, Ordering::Relaxed);
            return core;
        }
        let mut request = lock(&self.request);
        if *request == FallbackRequest::Drive {
            *request = FallbackRequest::Rest;
            self.block_on.wake();
        }
        None
    }

    /// Sends the fallback thread a request. A request to end is final.
    fn request(&self, new: FallbackRequest) {
        let mut request = lock(&self.request);
        if *request != FallbackRequest::End {
            *request = new;
        }
        drop(request);
        self.block_on.wake();
        self.requested.notify_all();
    }

    fn fall_back(&self) {
        loop {
            let mut request = lock(&self.request);
            while *request == FallbackRequest::Rest {
                request = wait(&self.requested, request);
            }
            let ends = *request == FallbackRequest::End;
            drop(request);
            let mut core = lock(&self.core);
            if ends {
                if let Some(Core { runtime, timer }) = core.take() {
                    drop((core, timer));
                    // Drops the tasks, which are user code; Tokio contains their panics.
                    runtime.shutdown_timeout(PATIENCE);
                }
                return;
            }
            if let Some(core) = &mut *core {
                core.runtime.block_on(poll_fn(|context| {
                    self.block_on.keep(context.waker());
                    if *lock(&self.request) == FallbackRequest::Drive { Poll::Pending } else { Poll::Ready(()) }
                }));
            }
        }
    }
}
