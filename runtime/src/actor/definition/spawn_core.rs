//! A spawn before its entry is chosen.

use super::{context::Context, entry::Pending};
use crate::engine::lifecycle::spawn::{Options, PendingSpawn};
use crate::engine::{host::Scheduler, host::reuse::HostRef};
use crate::{InitError, Pid, SpawnError};
use std::cell::{Cell, RefCell};
use std::panic::Location;

/// The state and options of a spawn, inside the entries that the macro generates.
pub struct SpawnCore<P> {
    pub(crate) host: HostRef,
    pub(crate) place: &'static Location<'static>,
    pub(crate) source: Cell<Option<Source<P>>>,
    /// Allocated when the first option is set.
    pub(crate) options: RefCell<Option<Box<Options>>>,
}

pub(crate) enum Source<P, B = Begins<P>> {
    /// The state itself, and the function that starts the process. Only code that knows the state to be `Send` can
    /// provide that function.
    Here(P, B),
    Pinned(Box<dyn FnOnce() -> P + Send>),
}

/// A function that spawns a process on the workers; there is none for a process that must not change threads.
pub(crate) type Begins<P> = fn(&'static Scheduler, &mut PendingSpawn, P, Beginning<'_, P>) -> Result<Pid, SpawnError>;

pub(crate) enum Beginning<'a, P> {
    Sync(&'a mut BeginSync<'a, P>),
    Future(&'a mut BeginFuture<'a, P>),
}

pub(crate) type BeginSync<'a, P> = dyn FnMut(&mut P, &mut Context<P>) -> Result<(), InitError> + 'a;

pub(crate) type BeginFuture<'a, P> = dyn FnMut(P, Context<P>) -> Pending<P> + 'a;
