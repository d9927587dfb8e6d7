//! Spawning a `#[process]`: options, then an entry.

use super::{or_spawn, wanted};
use crate::actor::definition::{
    Actor, Begin, Beginning, EntryFuture, KindOf, Migratable, Pending, Source, SpawnCore, Start,
};
use crate::actor::{
    definition::entry::pending, definition::outcome::AnswerParts, machine::state_machine::Machine, tasks::ExitWaiter,
};
use crate::engine::lifecycle::spawn::{Noted, Options, PendingSpawn};
use crate::engine::{blocking::block_in_place::while_blocked, host::Scheduler, host::reuse::HostRef};
use crate::process::{control::EndWaiter, guardian::Guardian};
use crate::util::{debug::impl_debug, oneshot::Oneshot};
use crate::{
    Address, Bound, Context, ExitReason, InitError, Payload, Pid, RunError, SpawnError, env::clock::instant_now,
    sync::Arc,
};
use std::cell::{Cell, RefCell};
use std::task::{Context as TaskContext, Poll};
use std::{
    any::TypeId, convert::Infallible, future::Future, marker::PhantomData, ops::Deref, panic::Location, pin::Pin,
    time::Duration,
};

/// A process that is about to be spawned: set its options, then call one of its entries by name.
///
/// A sync entry returns the process's [`Address`]. An async entry returns a [`Running`], which yields the result of the
/// entry.
#[must_use = "nothing is spawned until an entry is called, such as `.serve(…)`"]
pub struct Spawn<P: Actor> {
    entries: P::Entries,
}

impl<P: Actor> Spawn<P> {
    pub(crate) fn new(host: HostRef, place: &'static Location<'static>, process: P) -> Self
    where
        P: Migratable,
    {
        Self::of(host, place, Source::Here(process, spawn_on_workers))
    }

    pub(crate) fn pinned(
        host: HostRef,
        place: &'static Location<'static>,
        make: impl FnOnce() -> P + Send + 'static,
    ) -> Self {
        Self::of(host, place, Source::Pinned(Box::new(make)))
    }

    fn of(host: HostRef, place: &'static Location<'static>, source: Source<P>) -> Self {
        let (source, options) = (Cell::new(Some(source)), RefCell::default());
        Self { entries: P::entries(SpawnCore { host, place, source, options }) }
    }

    fn option(mut self, set: impl FnOnce(&mut Options)) -> Self {
        set(P::spawn_core(&mut self.entries).options.get_mut().get_or_insert_default());
        self
    }

    pub(crate) fn start_at(mut self, start: Start<P>, ending: Option<Arc<dyn EndWaiter>>) -> Result<Pid, SpawnError> {
        P::spawn_core(&mut self.entries).start(start, ending)
    }
}

options!([P: Actor] Spawn<P>);

impl<P: Actor> Deref for Spawn<P> {
    type Target = P::Entries;

    fn deref(&self) -> &P::Entries {
        &self.entries
    }
}

impl<P: Actor> SpawnCore<P> {
    fn pending(&self, entry: usize, result: Option<Arc<dyn EndWaiter>>) -> PendingSpawn {
        let options = self.options.take();
        let (generation, entry) = (self.host.generation, &P::ENTRIES[entry].name);
        PendingSpawn { generation, kind: KindOf::<P>::KIND, entry, place: self.place, options, result }
    }

    /// Starts the process at the sync entry with index `entry`.
    #[inline]
    pub fn start_sync(
        &self,
        entry: usize,
        begin: impl FnOnce(&mut P, &mut Context<P>) -> Result<(), InitError> + Send + 'static,
    ) -> Result<Address<P>, SpawnError> {
        let wanted = wanted(self.options.borrow().as_deref());
        let spawn = || self.spawn_sync(entry, None, begin);
        or_spawn(wanted, KindOf::<P>::KIND, self.host, spawn).map(Address::new)
    }

    #[inline]
    fn spawn_sync(
        &self,
        entry: usize,
        result: Option<Arc<dyn EndWaiter>>,
        begin: impl FnOnce(&mut P, &mut Context<P>) -> Result<(), InitError> + Send + 'static,
    ) -> Result<Pid, SpawnError> {
        // Not `ok_or`, which would construct an error even if it is not needed, and then have to drop it.
        let Some(source) = self.source.take() else { return Err(SpawnError::Used) };
        match source {
            Source::Here(process, begins) => {
                let mut begin = Some(begin);
                let mut begin = |process: &mut P, context: &mut Context<P>| match begin.take() {
                    Some(begin) => begin(process, context),
                    None => Err(InitError::Twice),
                };
                begins(self.host.scheduler, &mut self.pending(entry, result), process, Beginning::Sync(&mut begin))
            }
            Source::Pinned(make) => {
                let mut pending = self.pending(entry, result);
                self.host.scheduler.spawn_pinned(
                    &mut pending,
                    || Machine::new(make()),
                    |machine, ctx| machine.start_sync(ctx, begin),
                )
            }
        }
    }

    /// Starts the process at the async entry with index `entry`.
    pub fn start_async<T: Send + 'static, E: Send + 'static>(
        &self,
        entry: usize,
        begin: impl FnOnce(P, Context<P>) -> EntryFuture<P, T, E> + Send + 'static,
    ) -> Result<Running<P, T, E>, SpawnError> {
        let ending = Arc::new(ExitWaiter(Oneshot::new()));
        let begin = |process, context| pending(begin(process, context));
        let pid = self.spawn_future(entry, Some(ending.clone()), begin)?;
        Ok(Running::of(pid, ending))
    }

    fn spawn_future(
        &self,
        entry: usize,
        result: Option<Arc<dyn EndWaiter>>,
        begin: impl FnOnce(P, Context<P>) -> Pending<P> + Send + 'static,
    ) -> Result<Pid, SpawnError> {
        match self.source.take().ok_or(SpawnError::Used)? {
            Source::Here(process, begins) => {
                let mut begin = Some(begin);
                let mut begin = |process, context| {
                    let Some(begin) = begin.take() else { unreachable!("a process starts once") };
                    begin(process, context)
                };
                begins(self.host.scheduler, &mut self.pending(entry, result), process, Beginning::Future(&mut begin))
            }
            Source::Pinned(make) => {
                let mut pending = self.pending(entry, result);
                self.host.scheduler.spawn_pinned(
                    &mut pending,
                    || Machine::new(make()),
                    |machine, ctx| machine.start_future(ctx, begin),
                )
            }
        }
    }

    fn start(&self, start: Start<P>, ending: Option<Arc<dyn EndWaiter>>) -> Result<Pid, SpawnError> {
        match start.begin {
            Begin::Sync(begin) => self.spawn_sync(start.index, ending, begin),
            Begin::Future(begin) => self.spawn_future(start.index, ending, begin),
        }
    }
}

fn spawn_on_workers<P: Migratable>(
    host: &'static Scheduler,
    pending: &mut PendingSpawn,
    process: P,
    beginning: Beginning<'_, P>,
) -> Result<Pid, SpawnError> {
    let machine = Machine::new(process);
    match beginning {
        Beginning::Sync(begin) => host.spawn(pending, machine, |machine, ctx| machine.start_sync(ctx, begin)),
        Beginning::Future(begin) => host.spawn(pending, machine, |machine, ctx| machine.start_future(ctx, begin)),
    }
}

/// A running process, and the right to its result: the return value of an async entry, or the value that a hand-written
/// process passes to [`done_with`](crate::manual::StepOutput::done_with). Dropping it does not affect the process.
pub struct Running<P, T = (), E = Infallible> {
    pid: Pid,
    ending: Arc<ExitWaiter>,
    process: PhantomData<fn() -> P>,
    result: PhantomData<fn() -> Result<T, E>>,
}

/// The [`Running`] of a process that is spawned at an async entry with return type `R`. For generated code.
pub type RunningOf<P, R, const IS_RESULT: bool> =
    Running<P, <R as AnswerParts<IS_RESULT>>::Ok, <R as AnswerParts<IS_RESULT>>::Err>;

impl<P: Actor, T, E> Running<P, T, E> {
    /// Returns the address of the process.
    pub fn address(&self) -> Address<P> {
        Address::new(self.pid)
    }
}

impl<P, T: Send + 'static, E: Send + 'static> Running<P, T, E> {
    pub(crate) fn of(pid: Pid, ending: Arc<ExitWaiter>) -> Self {
        Self { pid, ending, process: PhantomData, result: PhantomData }
    }

    /// Returns the PID of the process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Blocks the thread until the process has ended, and returns the result of its entry. In async code, await it
    /// instead. Inside a process, another thread runs the other processes in the meantime.
    ///
    /// # Errors
    /// [`RunError::Failed`] with the entry's own error, or [`RunError::Ended`] with the reason why the process ended
    /// without a result.
    pub fn wait(self) -> Result<T, RunError<E>> {
        match while_blocked(|| self.ending.0.wait(None)) {
            Some((reason, result)) => outcome(reason, result),
            None => Err(RunError::Ended(ExitReason::NoProcess)),
        }
    }

    /// Blocks for at most `timeout`, measured by the system's clock. Returns `self` if the process has not ended by
    /// then.
    ///
    /// # Errors
    /// Those of [`Running::wait`].
    pub fn wait_timeout(self, timeout: Duration) -> Result<Result<T, RunError<E>>, Self> {
        let until = instant_now().checked_add(timeout);
        match while_blocked(|| self.ending.0.wait(until)) {
            Some((reason, result)) => Ok(outcome(reason, result)),
            None => Err(self),
        }
    }
}

fn outcome<T: Send + 'static, E: Send + 'static>(
    reason: ExitReason,
    result: Option<Payload>,
) -> Result<T, RunError<E>> {
    match result.map(Payload::take::<Result<T, E>>) {
        Some(Ok(result)) => result.map_err(RunError::Failed),
        // A hand-written process ends with a value, not with a `Result`.
        Some(Err(value)) => value.take().map_err(|_| RunError::Ended(reason)),
        None => Err(RunError::Ended(reason)),
    }
}

impl<P, T: Send + 'static, E: Send + 'static> Future for Running<P, T, E> {
    type Output = Result<T, RunError<E>>;

    fn poll(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.ending.0.poll(context.waker()).map(|(reason, result)| outcome(reason, result))
    }
}

impl_debug!([P: Actor] Spawn<P>, self => "Spawn<{}>", P::NAME);
impl_debug!([P, T, E] Running<P, T, E>, self => "Running<{}>{}", std::any::type_name::<P>(), self.pid);
