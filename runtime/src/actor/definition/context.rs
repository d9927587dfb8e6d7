//! The context of a method: the operations that it can perform besides changing its struct.

use crate::actor::tasks::{Acts, CommandResult, StashedMessage, awaits, current};
use crate::actor::{send::SendTo, send::call::send};
use crate::slots::{TABLE, slot::metadata::Metadata};
use crate::util::dispose::dispose_here;
use crate::util::panics::{Drops, Site};
use crate::{
    Call, CallError, Command, CommandError, ExitReason, Interval, Package, Payload, Pid, SendError,
    engine::context::values::inherited_values, env::clock::Moment, errors::Elapsed, sync::Arc, util::debug::impl_debug,
};
use slab::Slab;
use std::any::{Any, TypeId};
use std::time::{Duration, Instant};
use std::{convert::Infallible, fmt, future::Future, marker::PhantomData, panic::Location};

type Followup<P> = Box<dyn FnOnce(&mut P, CommandResult, &mut Context<P>) + Send>;

pub(crate) struct Continuation<P> {
    pub(crate) run: Followup<P>,
    /// Converts an answer that arrives after an upgrade to a message, because `run` belongs to the old definition.
    pub(crate) late: fn(CommandResult) -> Payload,
}

/// The answer to a call that the process made before it was upgraded. The closure of the call belonged to the old
/// definition, so the new definition receives the answer as a message, if it has a method for it:
/// `#[message(Answered<BankAudit, Report>)]`. `M` is the message of the call.
pub struct Answered<M, T = (), E = Infallible> {
    /// The result that the closure would have received.
    pub result: Result<T, CallError<E>>,
    of: PhantomData<fn(M)>,
}

/// The output of a future that the process started with [`run`](Context::run) before it was upgraded. See [`Answered`].
#[derive(Debug, PartialEq, Eq)]
pub struct Finished<T> {
    /// The output of the future.
    pub output: T,
}

/// The context of a method: the identity of the process, and operations to spawn, call, wait and end.
///
/// A message method, an entry or a signal method takes it as `ctx: &mut Context<Self>`. The futures of the `serve`
/// family and of `receive` borrow the context; all others borrow nothing and can be used in `join!` and `select!`. To
/// wait for messages and for something else at once, use [`serve_until`](Self::serve_until) or
/// [`serve_next_or`](Self::serve_next_or).
///
/// ```
/// use postroom::prelude::*;
/// use std::time::Duration;
///
/// #[process]
/// struct Job { units: u32 }
///
/// #[process]
/// impl Job {
///     #[entry]
///     async fn work(&mut self, ctx: &mut Context<Self>) -> u32 {
///         ctx.sleep(Duration::from_millis(1)).await;
///         6 * self.units
///     }
/// }
///
/// #[process]
/// struct Office { done: u32 }
///
/// #[process]
/// impl Office {
///     #[entry]
///     fn serve(&mut self) {}
///     #[message]
///     async fn work(&mut self, ctx: &mut Context<Self>, units: u32) -> Result<u32, SpawnError> {
///         let job = ctx.spawn(Job { units }).owned().work()?; // ends with this process at the latest
///         self.done += job.await.unwrap_or(0);
///         Ok(self.done)
///     }
///     #[message]
///     fn close(&mut self, ctx: &mut Context<Self>) { ctx.stop(); }
/// }
///
/// let runtime = Runtime::new()?;
/// let office = runtime.spawn(Office { done: 0 }).serve()?;
/// assert_eq!(office.work(7).wait()?, 42);
/// let end = office.pid().join();
/// office.close().send()?;
/// assert!(matches!(end.wait(), ExitReason::Normal));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Context<P> {
    pid: Option<Pid>,
    process: PhantomData<fn(P)>,
}

impl<P> Context<P> {
    pub(crate) fn new(pid: Option<Pid>) -> Self {
        Self { pid, process: PhantomData }
    }

    fn metadata(&self) -> Option<&'static Metadata> {
        TABLE.slot(self.pid?.slot()).map(|slot| &slot.metadata)
    }

    /// Returns the PID of this process.
    ///
    /// # Panics
    /// If the machine is driven by hand, and so has no PID; see [`Context::try_pid`].
    pub fn pid(&self) -> Pid {
        match self.pid {
            Some(pid) => pid,
            None => panic!("a process that is driven by hand has no PID; use `try_pid`"),
        }
    }

    /// Returns the PID of this process, or `None` if its machine is driven by hand.
    pub fn try_pid(&self) -> Option<Pid> {
        self.pid
    }

    /// Returns the process that spawned this one, or `None` if code outside of processes did. That process may have
    /// ended.
    pub fn parent(&self) -> Option<Pid> {
        self.metadata()?.parent(self.pid?.node())
    }

    /// Returns the name of the entry that was spawned, or an empty string if the machine is driven by hand.
    pub fn entry(&self) -> &'static str {
        self.metadata().and_then(Metadata::names).map_or("", |(_, entry)| entry)
    }

    /// Returns the source location of the spawn, or `None` if the machine is driven by hand.
    pub fn spawn_place(&self) -> Option<&'static Location<'static>> {
        self.metadata()?.place()
    }

    /// Returns the deadline of the call that is being handled, or `None` if the call has no deadline or the message was
    /// sent, not called. Calls that this method makes must be answered by the same deadline.
    pub fn deadline(&self) -> Option<Instant> {
        current::deadline().map(Moment::instant)
    }

    /// Returns the current time by the runtime's clock. Timers use the same clock.
    pub fn now(&self) -> Instant {
        Moment::now().instant()
    }

    /// Returns the value of type `T` that was set with [`Spawn::value`](crate::Spawn::value) on this process's spawn,
    /// or else on that of its nearest ancestor, or `None` if there is none.
    pub fn value<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        inherited_values()?.0.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }

    /// Sends a message to an address or a PID; see [`Host::send`](crate::Host::send). If the mailbox is full, this
    /// process is suspended after its step.
    ///
    /// # Errors
    /// Those of [`Call::send`].
    pub fn send<M: Send + 'static>(&self, to: impl SendTo<M>, message: M) -> Result<(), SendError<M>> {
        send(to.target(), message)
    }

    /// Ends the process with reason [`Normal`](ExitReason::Normal) after the current method returns; in async code, at
    /// its next await. Queued messages become dead letters.
    pub fn stop(&self) {
        current::stop();
    }

    /// Prepares a call whose answer is handled by a closure, so that the process can serve other messages in the
    /// meantime. Complete it with [`then`](CallThen::then). If the call fails, the closure receives the error.
    pub fn call<M: Send + 'static, T: Send + 'static, E: Send + 'static>(
        &mut self,
        call: Call<M, T, E>,
    ) -> CallThen<'_, P, M, T, E> {
        CallThen { context: PhantomData, call }
    }

    /// Prepares a future to run beside the process's methods. Complete it with [`then`](RunThen::then), whose closure
    /// receives the output. The future is polled in steps of this process, never at the same time as a method.
    pub fn run<F>(&mut self, future: F) -> RunThen<'_, P, F>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        RunThen { context: PhantomData, future }
    }

    /// Waits for `duration`: zero returns at once, `Duration::MAX` never returns. Cancel safe.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + use<P> {
        awaits::sleep(duration)
    }

    /// Waits until `at`, or returns at once if it has passed. Cancel safe.
    pub fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send + use<P> {
        awaits::sleep_until(Moment::from_instant(at))
    }

    /// Returns the output of `future` if it completes within `duration`, and drops it otherwise. The future is polled
    /// at least once, even for a duration of zero. As cancel safe as the future itself.
    ///
    /// # Errors
    /// [`Elapsed`] if it does not complete in time.
    pub fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> + use<P, F> {
        awaits::timeout(duration, future)
    }

    /// Returns an interval that ticks once every `period`, first after one period. A period of zero counts as one
    /// nanosecond; one of [`Duration::MAX`](std::time::Duration::MAX) never ticks.
    pub fn interval(&self, period: Duration) -> Interval {
        Interval::new(period)
    }

    /// Performs a command through its handler and returns the answer, however long that takes; set a limit with
    /// [`timeout`](Self::timeout). Dropping the future discards the answer.
    ///
    /// # Errors
    /// A [`CommandError`] if the runtime has no handler for `C`, or if the handler fails, panics or drops the command.
    pub fn perform<C: Command>(
        &self,
        command: C,
    ) -> impl Future<Output = Result<C::Output, CommandError>> + Send + use<P, C> {
        awaits::perform(command)
    }

    /// Sets whether the failure of a linked process arrives as an [`Exit`](crate::Exit) signal instead of ending this
    /// process. A process with a `#[signal]` method for [`Exit`](crate::Exit) traps exits from its start.
    pub fn trap_exits(&mut self, traps: bool) {
        crate::actor::send::links::trap_exits(traps);
    }

    /// Returns true if the process has ever been asked to end, be it by [`Pid::cancel`] or by a shutdown.
    pub fn is_cancelled(&self) -> bool {
        current::peek(|waits| waits.ending.requested.is_some()).unwrap_or(false)
    }

    /// Waits for the next request to end the process, and returns its reason. While the process awaits this future, a
    /// request does not end it: the code after the await decides how to proceed. If the process continues, the next
    /// `cancelled()` waits for the next request. Cancel safe: if the future is dropped before it returns a request that
    /// has arrived, that request is kept for the next call.
    pub fn cancelled(&self) -> impl Future<Output = ExitReason> + Send + use<P> {
        awaits::cancelled()
    }

    /// Runs `future` to completion even if the process is asked to end in the meantime. The process ends afterwards,
    /// unless a [`cancelled`](Self::cancelled) within `future` has received the request. (A kill still interrupts it.)
    pub fn shield<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<P, F> {
        awaits::shield(future)
    }
}

/// A call to be completed with a closure.
#[must_use = "nothing is called until `.then(…)`"]
pub struct CallThen<'a, P, M, T, E> {
    /// Keeps the context borrowed until the call of `then`. The closure passed to `then` receives the context again.
    context: PhantomData<&'a mut Context<P>>,
    call: Call<M, T, E>,
}

impl<P: 'static, M: Send + 'static, T: Send + 'static, E: Send + 'static> CallThen<'_, P, M, T, E> {
    /// Makes the call without waiting for the answer. `then` runs with the result, between two messages, unless the
    /// process has ended.
    pub fn then(self, then: impl FnOnce(&mut P, Result<T, CallError<E>>, &mut Context<P>) + Send + 'static) {
        let deadline = current::deadline();
        let run = Box::new(move |this: &mut P, answer, context: &mut Context<P>| {
            let outer = current::set_deadline(deadline);
            then(this, crate::actor::send::call::unpack(answer), context);
            current::set_deadline(outer);
        });
        let late = |answer| {
            Payload::new(Answered::<M, T, E> { result: crate::actor::send::call::unpack(answer), of: PhantomData })
        };
        self.call.begin_then(add_continuation(Continuation { run, late }));
    }
}

/// A future to be completed with a closure.
#[must_use = "nothing runs until `.then(…)`"]
pub struct RunThen<'a, P, F> {
    /// Keeps the context borrowed until the call of `then`. The closure passed to `then` receives the context again.
    context: PhantomData<&'a mut Context<P>>,
    future: F,
}

impl<P: 'static, F: Future<Output: Send + 'static> + Send + 'static> RunThen<'_, P, F> {
    /// Starts the future. `then` runs with its output, between two messages, unless the process has ended.
    pub fn then(self, then: impl FnOnce(&mut P, F::Output, &mut Context<P>) + Send + 'static) {
        let deadline = current::deadline();
        let run = Box::new(move |this: &mut P, answer: CommandResult, context: &mut Context<P>| {
            if let Ok(Ok(output)) = answer.map(Payload::take::<F::Output>) {
                let outer = current::set_deadline(deadline);
                then(this, output, context);
                current::set_deadline(outer);
            }
        });
        let late = |answer: CommandResult| match answer.map(Payload::take::<F::Output>) {
            Ok(Ok(output)) => Payload::new(Finished { output }),
            Ok(Err(other)) => other,
            Err(error) => Payload::new(error),
        };
        let number = add_continuation(Continuation { run, late });
        let future = self.future;
        let future = Box::pin(async move { Payload::new(future.await) });
        current::with(|waits| waits.run_in_background(future, number, Acts::Until(deadline)));
    }
}

impl_debug!([P] Context<P>, self => "Context" { pid: self.pid, entry: self.entry(), .. });
impl_debug!([P, M, T, E] CallThen<'_, P, M, T, E>, self => "CallThen" { call: self.call });
impl_debug!([P, F] RunThen<'_, P, F>, self => "RunThen");

pub(crate) fn add_continuation<P: 'static>(continuation: Continuation<P>) -> usize {
    let continuation = in_own_span(continuation);
    let number = current::with(|waits| {
        let continuations = waits.continuations.get_or_insert_with(|| Box::new(Slab::<Continuation<P>>::new()));
        continuations.downcast_mut::<Slab<Continuation<P>>>().map(|continuations| continuations.insert(continuation))
    });
    // The table always exists here: only methods of the process use a context.
    number.flatten().unwrap_or(usize::MAX)
}

/// Makes a continuation run in the span of its method. That span stays open until the continuation has run.
fn in_own_span<P: 'static>(continuation: Continuation<P>) -> Continuation<P> {
    let Some(origin) = crate::observe::spans::Origin::of_thread() else { return continuation };
    let Continuation { run, late } = continuation;
    let run = Box::new(move |this: &mut P, answer, context: &mut Context<P>| {
        let _span = origin.enter();
        run(this, answer, context);
    });
    Continuation { run, late }
}

pub(crate) fn run_continuation<P: 'static>(
    this: &mut P,
    context: &mut Context<P>,
    number: usize,
    answer: CommandResult,
) {
    let continuation = current::peek(|waits| {
        waits.continuations.as_mut()?.downcast_mut::<Slab<Continuation<P>>>()?.try_remove(number)
    });
    if let Some(continuation) = continuation.flatten() {
        (continuation.run)(this, answer, context);
    }
}

/// Drops the continuations of a process that has ended, one by one, so that a panic in one drop does not skip the
/// others.
pub(crate) fn drop_continuations<P: 'static>(drops: &mut Drops, continuations: Box<dyn Any + Send>) {
    match continuations.downcast::<Slab<Continuation<P>>>() {
        Ok(continuations) => drops.drop_each(continuations.into_iter().map(|(_, continuation)| continuation)),
        Err(others) => drops.run(|| drop(others)),
    }
}

/// Converts the continuations of a process that is being upgraded, so that answers arrive as messages. Drops the
/// closures.
pub(crate) fn carry_over<P: 'static, N: 'static>(continuations: Box<dyn Any + Send>) -> Box<dyn Any + Send> {
    let old = match continuations.downcast::<Slab<Continuation<P>>>() {
        Ok(old) => *old,
        Err(other) => return other,
    };
    let new: Slab<Continuation<N>> = old
        .into_iter()
        .map(|(number, Continuation { run, late })| {
            dispose_here(Site::StateDrop, run);
            let run = Box::new(move |_: &mut N, answer, context: &mut Context<N>| {
                if let Some(pid) = context.pid {
                    let package = Package::from_parts(pid, late(answer), None);
                    current::with(|waits| waits.inbox.messages.push_back(StashedMessage::of(package)));
                }
            });
            (number, Continuation { run, late })
        })
        .collect();
    Box::new(new)
}

impl_debug!([M, T: fmt::Debug, E: fmt::Debug] Answered<M, T, E>, self => "Answered" { result: self.result });
