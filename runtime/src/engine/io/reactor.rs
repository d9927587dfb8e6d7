//! What processes wait with for things besides messages: the reactor of another library, with its sockets and timers.
//!
//! The scheduler knows no such library. A host has one reactor or none; its threads run processes *within* it, which
//! they enter once for their lives (`within`), so that a step costs nothing more. Some reactors are *driven* by the
//! host's own threads: see [`driving`](crate::engine::sched::driving).

use std::task::Waker;
use std::time::Duration;

/// See the module.
pub(crate) trait Reactor: Send + Sync {
    /// Runs `body` so that what it asks of the library, and all that it calls, comes to this reactor.
    fn within(&self, body: &mut dyn FnMut());

    /// Its driver, if it is not driven by another thread.
    fn driver(&self) -> Option<&dyn Driver>;

    /// Ends it, and waits for that for so long at most. Nothing runs within it any more but steps that do not return.
    fn end(&self, patience: Duration);
}

/// What waits for the system on behalf of all who wait with a reactor, and runs the tasks that are spawned there. One
/// thread at a time drives it.
pub(crate) trait Driver: Send + Sync {
    /// Wakes those for whom the system has something, and runs tasks that are ready, some dozens at most; waits for
    /// nothing. Does nothing while another thread drives it.
    fn visit(&self);

    /// Waits until the system has something, and wakes those for whom it is; for so long at most, by some milliseconds,
    /// and no longer than until `is_called` says so, which is asked first, and again when the waker that it is given is
    /// woken. Gives `false`, at once, while another thread drives it.
    fn wait(&self, patience: Option<Duration>, is_called: &mut dyn FnMut(&Waker) -> bool) -> bool;

    /// Returns whether there are tasks, ready or not.
    fn has_tasks(&self) -> bool;

    /// Returns whether the calling thread drives it while no thread of the host does.
    fn is_fallback(&self) -> bool;

    /// To be called now and then while threads of the host are awake: if no thread has driven it since the last call, a
    /// thread of its own does so, until one of the host's wants to.
    fn tend(&self);
}
