//! What a spawn consists of before its entry is known.

use super::context::Context;
use super::entry::Pending;
use crate::engine::host::Scheduler;
use crate::engine::host::reuse::HostLife;
use crate::engine::lifecycle::spawn::{Options, PendingSpawn};
use crate::errors::{InitError, SpawnError};
use crate::pid::Pid;
use std::cell::{Cell, RefCell};
use std::panic::Location;

/// What a spawn consists of, inside the entries that the macro generates.
pub struct SpawnCore<P> {
    pub(crate) host: HostLife,
    pub(crate) place: &'static Location<'static>,
    pub(crate) source: Cell<Option<Source<P>>>,
    /// Made when there are any.
    pub(crate) options: RefCell<Option<Box<Options>>>,
}

/// Where the state of the process comes from.
pub(crate) enum Source<P> {
    /// It is here; and how it starts, which only code that knows that it may change threads can say.
    Here(P, Begins<P>),
    /// It is made on a thread of its own.
    Pinned(Box<dyn FnOnce() -> P + Send>),
}

/// Spawns a process whose state is here, for the workers to run. Of a process that may not change threads there is
/// none.
pub(crate) type Begins<P> = fn(&'static Scheduler, &mut PendingSpawn, P, Beginning<'_, P>) -> Result<Pid, SpawnError>;

/// An entry, to be called once.
pub(crate) enum Beginning<'a, P> {
    Sync(&'a mut BeginSync<'a, P>),
    Future(&'a mut BeginFuture<'a, P>),
}

/// Runs a sync entry.
pub(crate) type BeginSync<'a, P> = dyn FnMut(&mut P, &mut Context<P>) -> Result<(), InitError> + 'a;

/// Makes the future of an async entry.
pub(crate) type BeginFuture<'a, P> = dyn FnMut(P, Context<P>) -> Pending<P> + 'a;
