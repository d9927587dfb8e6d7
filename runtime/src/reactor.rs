//! Tokio beside the workers: with the feature `tokio`, a host's threads run processes within a Tokio runtime.
//!
//! That runtime is the program's own ([`Builder::tokio_handle`](crate::Builder::tokio_handle)), or one with a single thread
//! which does nothing but wait for the system and run the tasks that are spawned there
//! ([`Builder::tokio`](crate::Builder::tokio)). Either way processes run on Postroom's workers: what they await is
//! registered with Tokio, which wakes them as any other thread would.
//!
//! The own one is ended by whoever shuts the host down, after the last process: clean-up may still use its sockets. Its
//! thread drops the tasks that are left, and waits a moment for the threads of `spawn_blocking`.

use crate::clock::instant_now;
use crate::oneshot::Oneshot;
use crate::scheduler::reactor::Reactor;
use crate::sync::{Arc, JoinHandle, Mutex, current_thread, lock, spawn_thread};
use std::future::poll_fn;
use std::io;
use std::thread::ThreadId;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};

/// Which Tokio runtime a host's processes are to be within.
#[derive(Default)]
pub(crate) enum Choice {
    #[default]
    None,
    Own,
    Given(Handle),
}

/// How long the threads of `spawn_blocking` are waited for.
const PATIENCE: Duration = Duration::from_millis(100);

impl Choice {
    /// The reactor of a host of that name.
    pub(crate) fn start(self, name: &str) -> io::Result<Option<Box<dyn Reactor>>> {
        Ok(match self {
            Self::None => None,
            Self::Own => Some(Box::new(Own::start(name)?)),
            Self::Given(handle) => Some(Box::new(Given(handle))),
        })
    }
}

/// A Tokio runtime that somebody else looks after.
struct Given(Handle);

impl Reactor for Given {
    fn within(&self, body: &mut dyn FnMut()) {
        let _entered = self.0.enter();
        body();
    }

    /// Nobody can tell. Whoever shuts down inside of one should await it.
    fn is_driven_here(&self) -> bool {
        false
    }

    fn end(&self, _: Duration) {}
}

/// A Tokio runtime with one thread, of the host's own.
struct Own {
    handle: Handle,
    /// The thread, until somebody has waited for its end.
    thread: Mutex<Option<JoinHandle<()>>>,
    driver: ThreadId,
    stop: Arc<Oneshot<()>>,
    ended: Arc<Oneshot<()>>,
}

impl Own {
    fn start(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .thread_name(format!("{name}-blocking").replace('\0', " "))
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, ended) = (Arc::new(Oneshot::new()), Arc::new(Oneshot::new()));
        let (stopped, end) = (stop.clone(), ended.clone());
        let thread = spawn_thread(format!("{name}-reactor"), move || {
            runtime.block_on(poll_fn(|context| stopped.poll(context.waker())));
            // Drops the tasks, whose code is the user's own; Tokio contains their panics.
            runtime.shutdown_timeout(PATIENCE);
            end.put(());
        })?;
        let driver = thread.thread().id();
        Ok(Self { handle, thread: Mutex::new(Some(thread)), driver, stop, ended })
    }
}

impl Reactor for Own {
    fn within(&self, body: &mut dyn FnMut()) {
        let _entered = self.handle.enter();
        body();
    }

    fn is_driven_here(&self) -> bool {
        current_thread().id() == self.driver
    }

    fn end(&self, patience: Duration) {
        self.stop.put(());
        // A task that does not return keeps its thread, which is left behind then.
        if self.ended.wait(instant_now().checked_add(patience)).is_some()
            && let Some(thread) = lock(&self.thread).take()
        {
            let _ended = thread.join();
        }
    }
}

/// For a shutdown that nobody waits for.
impl Drop for Own {
    fn drop(&mut self) {
        self.stop.put(());
    }
}
