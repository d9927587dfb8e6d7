//! The interface to the reactor of another library, with its sockets and timers.
//!
//! The scheduler depends on no such library. A host has one reactor or none. Its threads run processes *within* the
//! reactor: they enter it once for their lifetime (`within`), so steps pay nothing. Some reactors are *driven* by the
//! host's own threads: see [`driving`](crate::engine::sched::driving). Others drive the host: its permits are tasks of
//! the library ([`driven`](crate::engine::sched::driven)).

use crate::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

pub(crate) trait Reactor: Send + Sync {
    /// Runs `body` so that all its requests to the library, including those of code that it calls, go to this reactor.
    fn within(&self, body: &mut dyn FnMut());

    /// Returns its driver; `None` if the host's threads do not drive it.
    fn driver(&self) -> Option<&dyn Driver>;

    /// Returns the means to run the host's permits as tasks; `None` if the host has threads of its own.
    fn tasks(&self) -> Option<&dyn PermitTasks> {
        None
    }

    /// Ends the reactor, waiting at most `patience`. When this is called, nothing runs within it, except steps that do
    /// not return.
    fn end(&self, patience: Duration);
}

/// Waits for events of the system on behalf of a reactor's users, and runs the tasks that they spawn. One thread at a
/// time drives it.
pub(crate) trait Driver: Send + Sync {
    /// Delivers the system's events and runs ready tasks, a few dozen at most, without waiting. Does nothing while
    /// another thread drives the reactor.
    fn visit(&self);

    /// Waits until the system has an event, and delivers it. Waits for at most `patience`, to within a few
    /// milliseconds, and no longer once `is_called` returns true. `is_called` is called first, and again whenever its
    /// waker is woken. Returns `false` at once while another thread drives the reactor.
    fn wait(&self, patience: Option<Duration>, is_called: &mut dyn FnMut(&Waker) -> bool) -> bool;

    fn has_tasks(&self) -> bool;

    /// Returns whether the calling thread is the one that drives the reactor in place of the host's threads.
    fn is_fallback(&self) -> bool;

    /// If no thread has driven the reactor since the previous call, makes a thread of the reactor's own drive it until
    /// one of the host's threads takes over. Called occasionally while threads of the host are awake.
    fn tend(&self);
}

/// Runs the permits of a host on the threads of the library.
pub(crate) trait PermitTasks {
    /// Spawns a task that polls `permit` until it is over. If the task is dropped before that, it calls
    /// [`leave`](PermitTask::leave).
    fn spawn(&self, permit: Arc<dyn PermitTask>);

    /// Runs `body`, which may block its thread: in a drive of a permit, or elsewhere.
    fn while_blocking(&self, body: &mut dyn FnMut());
}

/// A permit, as seen by the task that drives it.
#[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "no library has tasks"))]
pub(crate) trait PermitTask: Send + Sync {
    /// Drives the permit. Later calls of the permit wake `waker`.
    fn poll(&self, waker: &Waker) -> TaskPoll;

    /// The task ends, although the permit is not over.
    fn leave(self: Arc<Self>);
}

#[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "no library has tasks"))]
pub(crate) enum TaskPoll {
    /// The permit rests until it is called, or until the given time: then it must be polled again.
    Rests(Option<Instant>),
    /// The permit has more to do: other tasks first.
    Again,
    Over,
}
