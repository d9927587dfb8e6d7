//! Upgrades: a process hands its state to another definition and keeps its PID.
//!
//! A request travels in the control lane, ahead of messages. The old definition's machine acts on it between methods:
//! it passes its struct to the request's closure, and its pending waits to a machine of the new definition. The
//! scheduler installs that machine. The slot's own data stays in place.
//!
//! | | after the upgrade |
//! |---|---|
//! | PID, name, label, values, links, monitors, joins, bounds | unchanged |
//! | messages queued, set aside, or sent later | handled by the new definition, or unhandled |
//! | `send_after`, `send_every` | unchanged: they are messages |
//! | calls with `then`, futures of `run` | continue; the outcome arrives as a message: [`Answered`], [`Finished`] |
//! | values captured by their closures | dropped: the caller of a captured `Reply` is notified |
//! | a running async method | finishes first, and no message is taken in the meantime |
//!
//! [`Answered`]: crate::future::Answered
//! [`Finished`]: crate::future::Finished

use super::state_machine::Machine;
use crate::actor::definition::{Actor, Declared, KindOf, Migratable};
use crate::actor::tasks::{Handover, TableCell, current, waker};
use crate::actor::{definition::actor::async_entry, definition::context::carry_over};
use crate::engine::{blocking::block_in_place::while_blocked, context::thread::current_pid, shutdown::send_control};
use crate::process::handover::{Successor, Upgrade, UpgradeRefusal};
use crate::process::{body::Body, control::Control};
use crate::util::panics::{Site, contain};
use crate::{
    Address, Context, ExitReason, Pid, env::clock::instant_now, exit::Panic, routing::router::this_node, slots::TABLE,
    sync::Arc, util::oneshot::Oneshot,
};
use std::task::{Context as TaskContext, Poll};
use std::{convert::Infallible, fmt, future::Future, pin::Pin, time::Duration};

/// The reason why a process was not upgraded. `E` is the error of the closure that makes the new state.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError<E = Infallible> {
    /// The process ended before the upgrade or before the request.
    #[error("{0} ended before it was upgraded; start the new definition as a process of its own")]
    Gone(Pid),
    /// The process has another type. It continues unchanged.
    #[error("{pid} is a `{found}`, not a `{expected}`; it continues unchanged")]
    Type {
        /// The process.
        pid: Pid,
        /// The expected type.
        expected: &'static str,
        /// The actual type.
        found: &'static str,
    },
    /// The process runs an async entry, which owns its state. It continues unchanged.
    #[error(
        "{pid} runs its async entry `{entry}`, which owns the state until it ends; start a process that is to be \
         upgraded at a sync entry"
    )]
    Entry {
        /// The process.
        pid: Pid,
        /// The entry.
        entry: &'static str,
    },
    /// A process cannot wait for its own upgrade.
    #[error("{0} cannot wait for its own upgrade; use `ctx.upgrade(…)`, which takes effect when the method returns")]
    Itself(Pid),
    /// No such upgrade is registered. The process continues unchanged.
    #[error("no upgrade of `{process}` to `{to}` is registered; there {}", registered(has))]
    Missing {
        /// The type of the process.
        process: &'static str,
        /// The requested type.
        to: String,
        /// The registered types.
        has: Vec<&'static str>,
    },
    /// The new state could not be made. The old state is gone, and the process has ended with this error as its
    /// reason.
    #[error("the new state could not be made: {0}")]
    Failed(E),
    /// The closure that makes the new state panicked, and the panic ended the process.
    #[error("the new state could not be made: {0}")]
    Panicked(Panic),
}

fn registered(has: &[&'static str]) -> String {
    if has.is_empty() { "are none from this type".to_owned() } else { format!("are upgrades to {}", has.join(", ")) }
}

/// The result of an upgrade's closure: the new state, or a `Result` with it.
pub trait IntoUpgrade {
    /// The new definition.
    type Process: Migratable;
    /// The error if the new state cannot be made.
    type Error: fmt::Display + Send + 'static;

    /// Converts to a `Result`.
    fn into_result(self) -> Result<Self::Process, Self::Error>;
}

impl<P: Migratable> IntoUpgrade for P {
    type Process = P;
    type Error = Infallible;

    fn into_result(self) -> Result<P, Infallible> {
        Ok(self)
    }
}

impl<P: Migratable, E: fmt::Display + Send + 'static> IntoUpgrade for Result<P, E> {
    type Process = P;
    type Error = E;

    fn into_result(self) -> Self {
        self
    }
}

/// The requester of an upgrade, as the upgrade refers to it. If this value is dropped without an answer, the requester
/// learns that the process has ended.
struct UpgradeCaller<E> {
    pid: Pid,
    told: Arc<Oneshot<Result<(), UpgradeError<E>>>>,
}

fn tell_asker<E>(asker: Option<Arc<UpgradeCaller<E>>>, outcome: Result<(), UpgradeError<E>>) {
    if let Some(asker) = asker {
        asker.told.put(outcome);
    }
}

impl<E> Drop for UpgradeCaller<E> {
    fn drop(&mut self) {
        // Has no effect if the upgrade was answered.
        self.told.put(Err(UpgradeError::Gone(self.pid)));
    }
}

fn request<P: Actor, S: IntoUpgrade>(
    asker: Option<UpgradeCaller<S::Error>>,
    make: impl FnOnce(P) -> S + Send + 'static,
) -> Handover<P> {
    let asker = asker.map(Arc::new);
    let refused = asker.clone();
    let refuse = move |refusal| {
        let Some(pid) = refused.as_ref().map(|asker| asker.pid) else { return };
        tell_asker(
            refused,
            Err(match refusal {
                UpgradeRefusal::Type(found) => UpgradeError::Type { pid, expected: P::NAME, found },
                UpgradeRefusal::Entry(entry) => UpgradeError::Entry { pid, entry },
            }),
        );
    };
    let make =
        move |old: P| match contain(Site::UpgradeMake, || make(old).into_result()) {
            Ok(Ok(new)) => Ok(Box::new(move |table| successor::<P, _, _>(new, table, asker))
                as Box<dyn FnOnce(TableCell) -> Successor>),
            Ok(Err(error)) => {
                let (to, error_text) = (<S::Process as Declared>::NAME, crate::util::panics::text(&error));
                let reason = ExitReason::error(format!("could not be upgraded to `{to}`: {error_text}"));
                tell_asker(asker, Err(UpgradeError::Failed(error)));
                Err(reason)
            }
            Err(panic) => {
                tell_asker(asker, Err(UpgradeError::Panicked(panic.clone())));
                Err(ExitReason::Panic(panic.into()))
            }
        };
    Handover { make: Box::new(make), refuse: Box::new(refuse) }
}

/// Creates the machine of the new definition, with the pending waits of the old one.
fn successor<P: Actor, N: Migratable, E: Send + 'static>(
    new: N,
    mut table: TableCell,
    asker: Option<Arc<UpgradeCaller<E>>>,
) -> Successor {
    if let Some(waits) = &mut table.waits
        && let Some(continuations) = waits.continuations.take()
    {
        waits.continuations = Some(carry_over::<P, N>(continuations));
    }
    let pid = waker::owner_of(table.incarnation).and_then(|(slot, generation)| {
        let owner = slot.owner()?;
        Some(owner.pid(slot.index(), generation))
    });
    let body = Body::new(Machine::taking_over(new, pid, table));
    Successor { body, kind: KindOf::<N>::KIND, done: Some(Box::new(move || tell_asker(asker, Ok(())))) }
}

impl<P: Actor> Context<P> {
    /// Replaces this definition by another when the current method returns, under the same PID. `make` converts the
    /// state; an error from it ends the process. See [`Pid::upgrade`] for what is kept.
    ///
    /// # Errors
    /// [`UpgradeError::Entry`] in an async entry, because the entry owns the state until it ends.
    pub fn upgrade<S: IntoUpgrade>(&mut self, make: impl FnOnce(P) -> S + Send + 'static) -> Result<(), UpgradeError> {
        if let Some(entry) = async_entry::<P>(self.entry()) {
            return Err(UpgradeError::Entry { pid: self.pid(), entry });
        }
        let upgrade = Upgrade::new(request(None, make));
        current::with(|waits| waits.ask_to_upgrade(upgrade));
        Ok(())
    }
}

impl Pid {
    /// Asks the process, an `Old`, to hand its state to another definition under the same PID. `make` converts the
    /// state and returns the new one or a `Result` with it. Await the upgrade, or `wait` for it on a plain thread;
    /// dropping the returned value does not withdraw the request.
    ///
    /// The request takes priority over queued messages; an async method that is running finishes first. The mailbox,
    /// name, links, monitors and timers are kept, as are pending calls and futures. Since the closures of these calls
    /// and futures belonged to the old definition, each outcome arrives as a message to the new one,
    /// [`Answered`](crate::future::Answered) or [`Finished`](crate::future::Finished). Old addresses and aliases stay
    /// valid. Messages without a method in the new definition become dead letters, and calls without one fail with
    /// [`Unhandled`](crate::CallError::Unhandled).
    ///
    /// Costs one control message and the allocations of a spawn.
    ///
    /// ```
    /// use postroom::prelude::*;
    ///
    /// #[process] struct Counter { count: u64 }
    /// #[process]
    /// impl Counter {
    ///     #[entry] fn serve(&mut self) {}
    ///     #[message] fn add(&mut self, amount: u64) { self.count += amount; }
    /// }
    ///
    /// #[process] struct Tally { sum: u64 }
    /// #[process]
    /// impl Tally {
    ///     #[entry] fn serve(&mut self) {}
    ///     #[message(CounterAdd)] fn add(&mut self, message: CounterAdd) { self.sum += message.amount; }
    ///     #[message] fn sum(&self) -> u64 { self.sum }
    /// }
    ///
    /// let runtime = Runtime::new()?;
    /// let counter = runtime.spawn(Counter { count: 1 }).serve()?;
    /// let tally = counter.pid().upgrade(|old: Counter| Tally { sum: old.count }).wait()?;
    /// counter.add(2).wait()?;
    /// assert_eq!((tally.pid(), tally.sum().wait()?), (counter.pid(), 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`UpgradeError`]: a process that refuses the upgrade continues unchanged; if the new state cannot be made,
    /// the process ends.
    pub fn upgrade<Old: Actor, S: IntoUpgrade>(
        self,
        make: impl FnOnce(Old) -> S + Send + 'static,
    ) -> Upgrading<Address<S::Process>, S::Error> {
        let told = Arc::new(Oneshot::new());
        let asker = UpgradeCaller { pid: self, told: told.clone() };
        let process = self.resolve().filter(|pid| pid.node() == this_node());
        if process.is_some() && process == current_pid() {
            asker.told.put(Err(UpgradeError::Itself(self)));
        } else {
            // If the process has ended, the request is dropped, and the drop notifies the waiter.
            let control = Control::Upgrade(Upgrade::new(request::<Old, S>(Some(asker), make)));
            if let Some(process) = process
                && let Some(slot) = TABLE.living(process)
            {
                send_control(slot, process.generation(), control);
            }
        }
        Upgrading { pid: self, told, address: Address::new }
    }
}

/// An upgrade in progress: await it, or call [`wait`](Self::wait). Its result is the process's address with its new
/// type.
#[must_use = "await it, or call `.wait()`: it may be refused"]
pub struct Upgrading<A, E = Infallible> {
    pid: Pid,
    told: Arc<Oneshot<Result<(), UpgradeError<E>>>>,
    address: fn(Pid) -> A,
}

impl<A, E: Send + 'static> Upgrading<A, E> {
    pub(crate) fn untyped(self) -> Upgrading<Pid, E> {
        Upgrading { pid: self.pid, told: self.told, address: |pid| pid }
    }

    /// Blocks the thread until the upgrade is done. Inside a process, another thread runs the other processes in the
    /// meantime.
    ///
    /// # Errors
    /// See [`UpgradeError`].
    pub fn wait(self) -> Result<A, UpgradeError<E>> {
        match while_blocked(|| self.told.wait(None)) {
            Some(outcome) => outcome.map(|()| (self.address)(self.pid)),
            None => Err(UpgradeError::Gone(self.pid)),
        }
    }

    /// Blocks for at most `timeout`, measured by the system's clock. If the request has not been answered by then, it
    /// remains in effect.
    ///
    /// # Errors
    /// Returns this upgrade if the timeout has passed. The errors of [`Upgrading::wait`] are inside the `Ok`.
    pub fn wait_timeout(self, timeout: Duration) -> Result<Result<A, UpgradeError<E>>, Self> {
        let until = instant_now().checked_add(timeout);
        match while_blocked(|| self.told.wait(until)) {
            Some(outcome) => Ok(outcome.map(|()| (self.address)(self.pid))),
            None => Err(self),
        }
    }
}

impl<E> Upgrading<Pid, E> {
    pub(crate) fn refused(pid: Pid, error: UpgradeError<E>) -> Self {
        let told = Arc::new(Oneshot::new());
        told.put(Err(error));
        Self { pid, told, address: |pid| pid }
    }
}

impl<A, E: Send + 'static> Future for Upgrading<A, E> {
    type Output = Result<A, UpgradeError<E>>;

    fn poll(self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.told.poll(context.waker()).map(|outcome| outcome.map(|()| (self.address)(self.pid)))
    }
}

crate::util::debug::impl_debug!([A, E] Upgrading<A, E>, self => "Upgrading{}", self.pid);
