//! The interface to the reactor of another library, with its sockets and timers.
//!
//! The scheduler knows no such library. A host has one reactor or none; its threads run processes *within* it, entering
//! it once for their lives (`within`), so that steps pay nothing. Some reactors are *driven* by the host's own threads:
//! see [`driving`](crate::engine::sched::driving).

use std::task::Waker;
use std::time::Duration;

pub(crate) trait Reactor: Send + Sync {
    /// Runs `body` so that its requests to the library, and those of everything it calls, go to this reactor.
    fn within(&self, body: &mut dyn FnMut());

    /// Returns its driver, unless another thread drives it.
    fn driver(&self) -> Option<&dyn Driver>;

    /// Ends it, waiting at most `patience`. Nothing runs within it any more, except steps that do not return.
    fn end(&self, patience: Duration);
}

/// Waits for the system for a reactor's users, and runs the tasks spawned there. One thread at a time drives it.
pub(crate) trait Driver: Send + Sync {
    /// Delivers the system's events and runs ready tasks, some dozens at most, without waiting. Does nothing while
    /// another thread drives it.
    fn visit(&self);

    /// Waits until the system has an event, and delivers it; at most `patience`, to within some milliseconds, and no
    /// longer than until `is_called` returns true, which is called first, and again when its waker is woken. Returns
    /// `false`, at once, while another thread drives it.
    fn wait(&self, patience: Option<Duration>, is_called: &mut dyn FnMut(&Waker) -> bool) -> bool;

    fn has_tasks(&self) -> bool;

    /// Returns whether the calling thread drives it in place of the host's threads.
    fn is_fallback(&self) -> bool;

    /// Called occasionally while threads of the host are awake: if no thread has driven it since the last call, a
    /// thread of its own does so, until one of the host's takes over.
    fn tend(&self);
}
