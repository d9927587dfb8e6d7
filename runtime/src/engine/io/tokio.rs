//! Tokio beside the permits: with the feature `tokio`, a host's threads run processes within a Tokio runtime.
//!
//! That runtime is the program's own ([`Builder::tokio_handle`](crate::Builder::tokio_handle)), which drives itself, or
//! one of the host's ([`Builder::tokio`](crate::Builder::tokio)), which the host's threads drive (see
//! `scheduler::driving`): a permit that has nothing to do waits for the system there, and busy ones look in. Either way
//! processes run on Postroom's permits, and what they await is registered with Tokio, which wakes them.
//!
//! Tokio's runtime for one thread may be driven by any, one after the other: each turn is a `block_on` of a future that
//! is ready when the turn is to end. A callback that Tokio calls when it has waited makes it so before any task runs.
//!
//! A thread of the runtime's own drives it while no other does: before the host's threads start, and when they are all
//! in long steps. It also ends the runtime, when it is told to by the shutdown of the host, after the last process:
//! clean-up may still use its sockets. That drops the tasks that are left, and waits a moment for the threads of
//! `spawn_blocking`.

use super::reactor::{Driver, Reactor};
use crate::env::clock::instant_now;
use crate::sync::{
    Arc, AtomicBool, AtomicU64, Condvar, JoinHandle, Mutex, MutexGuard, Ordering, current_thread, lock, spawn_thread,
    wait,
};
use crate::util::oneshot::Oneshot;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::TryLockError;
use std::task::{Poll, Waker};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Sleep;

/// Which Tokio runtime a host's processes are to be within.
#[derive(Default)]
pub(crate) enum TokioChoice {
    #[default]
    None,
    Own,
    Given(Handle),
}

/// How long the threads of `spawn_blocking` are waited for.
const PATIENCE: Duration = Duration::from_millis(100);

impl TokioChoice {
    /// The reactor of a host of that name.
    pub(crate) fn start(self, name: &str) -> io::Result<Option<Box<dyn Reactor>>> {
        Ok(match self {
            Self::None => None,
            Self::Own => Some(Box::new(Own::start(name)?)),
            Self::Given(handle) => Some(Box::new(BorrowedTokio(handle))),
        })
    }
}

/// A Tokio runtime of the program.
struct BorrowedTokio(Handle);

impl Reactor for BorrowedTokio {
    fn within(&self, body: &mut dyn FnMut()) {
        let _entered = self.0.enter();
        body();
    }

    fn driver(&self) -> Option<&dyn Driver> {
        None
    }

    fn end(&self, _: Duration) {}
}

/// A Tokio runtime of the host's own.
struct Own {
    handle: Handle,
    shared: Arc<TokioShared>,
    /// The thread that drives it while no other does; taken by the thread that waits for its end.
    fallback: Mutex<Option<JoinHandle<()>>>,
    fallback_id: ThreadId,
    ended: Arc<Oneshot<()>>,
}

/// What those who drive it have in common.
struct TokioShared {
    /// The thread that drives it holds the lock. `None` when it has ended.
    core: Mutex<Option<Core>>,
    turn: Arc<BlockOn>,
    /// How often it has been driven.
    turns: AtomicU64,
    /// The number of them at the last call of `tend`.
    tended: AtomicU64,
    wish: Mutex<FallbackRequest>,
    wished: Condvar,
}

struct Core {
    runtime: Runtime,
    /// Ends a wait, at the moment beside it or before.
    timer: Option<(Pin<Box<Sleep>>, Instant)>,
}

/// What the fallback is to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FallbackRequest {
    Rest,
    Drive,
    End,
}

/// One `block_on`.
#[derive(Default)]
struct BlockOn {
    has_waited: AtomicBool,
    /// Has the future of the `block_on` polled: the same for all of them.
    waker: Mutex<Option<Waker>>,
}

impl BlockOn {
    /// Tokio has waited: the future is to look.
    fn waited(&self) {
        self.has_waited.store(true, Ordering::Relaxed);
        self.wake();
    }

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
        let turn = Arc::new(BlockOn::default());
        // Weak: the waker that the turn keeps holds Tokio's runtime, and with it this callback. A cycle would keep the
        // reactor and its file descriptors for ever. Those who drive hold the turn meanwhile, so no wait is missed.
        let waited = Arc::downgrade(&turn);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .thread_name(format!("{name}-blocking").replace('\0', " "))
            .on_thread_unpark(move || {
                if let Some(turn) = waited.upgrade() {
                    turn.waited();
                }
            })
            .build()?;
        let handle = runtime.handle().clone();
        let shared = Arc::new(TokioShared {
            core: Mutex::new(Some(Core { runtime, timer: None })),
            turn,
            turns: AtomicU64::new(0),
            tended: AtomicU64::new(0),
            wish: Mutex::new(FallbackRequest::Drive),
            wished: Condvar::new(),
        });
        let ended = Arc::new(Oneshot::new());
        let (theirs, end) = (shared.clone(), ended.clone());
        let fallback = spawn_thread(format!("{name}-reactor"), move || {
            theirs.fall_back();
            end.put(());
        })?;
        let fallback_id = fallback.thread().id();
        Ok(Self { handle, shared, fallback: Mutex::new(Some(fallback)), fallback_id, ended })
    }
}

impl Reactor for Own {
    fn within(&self, body: &mut dyn FnMut()) {
        let _entered = self.handle.enter();
        body();
    }

    fn driver(&self) -> Option<&dyn Driver> {
        Some(self)
    }

    fn end(&self, patience: Duration) {
        self.shared.wish(FallbackRequest::End);
        // A task that does not return keeps its thread, which is left behind then.
        if self.ended.wait(instant_now().checked_add(patience)).is_some()
            && let Some(thread) = lock(&self.fallback).take()
        {
            let _ended = thread.join();
        }
    }
}

/// For a shutdown that no thread waits for.
impl Drop for Own {
    fn drop(&mut self) {
        self.shared.wish(FallbackRequest::End);
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
            // Tokio looks at the system, and runs tasks, before it polls this again.
            context.waker().wake_by_ref();
            Poll::Pending
        }));
    }

    fn wait(&self, patience: Option<Duration>, is_called: &mut dyn FnMut(&Waker) -> bool) -> bool {
        let shared = &*self.shared;
        let Some(mut core) = shared.take_core() else { return false };
        let Some(Core { runtime, timer }) = &mut *core else { return false };
        let until = patience.and_then(|patience| instant_now().checked_add(patience));
        shared.turn.has_waited.store(false, Ordering::Relaxed);
        runtime.block_on(poll_fn(|context| {
            shared.turn.keep(context.waker());
            if shared.turn.has_waited.load(Ordering::Relaxed) || is_called(context.waker()) {
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
        let turns = self.shared.turns.load(Ordering::Relaxed);
        if self.shared.tended.swap(turns, Ordering::Relaxed) == turns && self.shared.is_free() {
            self.shared.wish(FallbackRequest::Drive);
        }
    }
}

/// Returns whether it is `until`, or some time before. The timer is seldom set anew: the deadlines of calls, which is
/// what there mostly is to wait for, move on with the time.
fn poll_timer(
    timer: &mut Option<(Pin<Box<Sleep>>, Instant)>,
    until: Instant,
    context: &mut std::task::Context<'_>,
) -> Poll<()> {
    let (sleep, set) = timer.get_or_insert_with(|| (Box::pin(tokio::time::sleep_until(until.into())), until));
    if *set > until || sleep.is_elapsed() {
        sleep.as_mut().reset(until.into());
        *set = until;
    }
    sleep.as_mut().poll(context)
}

impl TokioShared {
    /// The right to drive, if no thread has it; the fallback is told to give it up.
    fn take_core(&self) -> Option<MutexGuard<'_, Option<Core>>> {
        let core = match self.core.try_lock() {
            Ok(core) => core,
            Err(TryLockError::Poisoned(core)) => core.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let mut wish = lock(&self.wish);
                if *wish == FallbackRequest::Drive {
                    *wish = FallbackRequest::Rest;
                    self.turn.wake();
                }
                return None;
            }
        };
        self.turns.fetch_add(1, Ordering::Relaxed);
        Some(core)
    }

    /// Returns whether no thread drives it.
    fn is_free(&self) -> bool {
        !matches!(self.core.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Tells the fallback what to do; nothing comes after the end.
    fn wish(&self, new: FallbackRequest) {
        let mut wish = lock(&self.wish);
        if *wish != FallbackRequest::End {
            *wish = new;
        }
        drop(wish);
        self.turn.wake();
        self.wished.notify_all();
    }

    /// The fallback's life.
    fn fall_back(&self) {
        loop {
            let mut wish = lock(&self.wish);
            while *wish == FallbackRequest::Rest {
                wish = wait(&self.wished, wish);
            }
            let ends = *wish == FallbackRequest::End;
            drop(wish);
            let mut core = lock(&self.core);
            if ends {
                if let Some(Core { runtime, timer }) = core.take() {
                    drop((core, timer));
                    // Drops the tasks, whose code is the user's own; Tokio contains their panics.
                    runtime.shutdown_timeout(PATIENCE);
                }
                return;
            }
            if let Some(core) = &mut *core {
                core.runtime.block_on(poll_fn(|context| {
                    self.turn.keep(context.waker());
                    if *lock(&self.wish) == FallbackRequest::Drive { Poll::Pending } else { Poll::Ready(()) }
                }));
            }
        }
    }
}
