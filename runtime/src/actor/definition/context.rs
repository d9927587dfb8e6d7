//! What a method can do besides changing its struct.

use crate::actor::send::addressed::SendTo;
use crate::actor::send::call::{Call, send};
use crate::actor::tasks::attachment::Inbound;
use crate::actor::tasks::awaits;
use crate::actor::tasks::background::Acts;
use crate::actor::tasks::current;
use crate::actor::tasks::interval::Interval;
use crate::actor::tasks::pending::CommandResult;
use crate::call::command::Command;
use crate::call::package::Package;
use crate::engine::context::values::inherited_values;
use crate::env::clock::Moment;
use crate::errors::{CallError, CommandError, Elapsed, SendError};
use crate::exit::ExitReason;
use crate::mailbox::payload::Payload;
use crate::pid::Pid;
use crate::slots::TABLE;
use crate::slots::slot::metadata::Metadata;
use crate::sync::Arc;
use slab::Slab;
use std::any::{Any, TypeId};
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::time::{Duration, Instant};

type Followup<P> = Box<dyn FnOnce(&mut P, CommandResult, &mut Context<P>) + Send>;

/// What follows an answer.
pub(crate) struct Continuation<P> {
    pub(crate) run: Followup<P>,
    /// The answer as a message, for a process that has been upgraded since: `run` is of the old definition.
    pub(crate) late: fn(CommandResult) -> Payload,
}

/// What came of a call that the process made, with a closure to follow, before it was upgraded: the closure was of the
/// old definition. The new one gets this as a message, if it has a method for it:
/// `#[message(Answered<BankAudit, Report>)]`. `M` is the message that was called with.
pub struct Answered<M, T = (), E = Infallible> {
    /// As the closure would have got it.
    pub result: Result<T, CallError<E>>,
    of: PhantomData<fn(M)>,
}

/// The output of a future that the process had running, with a closure to follow, before it was upgraded. See
/// [`Answered`].
#[derive(Debug, PartialEq, Eq)]
pub struct Finished<T> {
    /// What the future gave.
    pub output: T,
}

/// What a method can do besides changing its struct: know who and where it is, spawn, call, wait, end.
///
/// A message method, an entry or a signal method gets one by taking `ctx: &mut Context<Self>`. Of the methods that give
/// a future, those of the `serve` family and `receive` borrow it; all others borrow nothing, so that they can be joined
/// and selected. To wait for messages or something else there are [`serve_until`](Self::serve_until) and
/// [`serve_next_or`](Self::serve_next_or).
pub struct Context<P> {
    pid: Option<Pid>,
    process: PhantomData<fn(P)>,
}

impl<P> Context<P> {
    pub(crate) fn new(pid: Option<Pid>) -> Self {
        Self { pid, process: PhantomData }
    }

    /// What is told of the process, while it lives.
    fn metadata(&self) -> Option<&'static Metadata> {
        TABLE.slot(self.pid?.slot()).map(|slot| &slot.metadata)
    }

    /// The process's own PID.
    ///
    /// # Panics
    /// In a machine that is driven by hand, which has none; see [`Context::try_pid`].
    pub fn pid(&self) -> Pid {
        match self.pid {
            Some(pid) => pid,
            None => panic!("a process that is driven by hand has no PID; ask with `try_pid`"),
        }
    }

    /// The process's own PID; `None` if its machine is driven by hand.
    pub fn try_pid(&self) -> Option<Pid> {
        self.pid
    }

    /// The process that spawned this one; `None` if it was a thread.
    pub fn parent(&self) -> Option<Pid> {
        self.metadata()?.parent(self.pid?.node())
    }

    /// The entry that it was started at; empty if its machine is driven by hand.
    pub fn entry(&self) -> &'static str {
        self.metadata().and_then(Metadata::names).map_or("", |(_, entry)| entry)
    }

    /// Where in the source it was spawned.
    pub fn spawn_place(&self) -> Option<&'static Location<'static>> {
        self.metadata()?.place()
    }

    /// When the caller of the method that runs now stops waiting.
    pub fn deadline(&self) -> Option<Instant> {
        current::deadline().map(Moment::instant)
    }

    /// Now, by the clock that timers go by: the runtime's.
    pub fn now(&self) -> Instant {
        Moment::now().instant()
    }

    /// A value that was given to this process, or to the one that spawned it, and so on upward, with `value`.
    pub fn value<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        inherited_values()?.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }

    /// Sends a message to an address or a PID; see [`Host::send`](crate::Host::send).
    ///
    /// # Errors
    /// The message, with the reason, if the process has ended or was never there.
    pub fn send<M: Send + 'static>(&self, to: impl SendTo<M>, message: M) -> Result<(), SendError<M>> {
        send(to.target(), message)
    }

    /// Ends the process when the method that runs now is done (in async code: at its next await).
    pub fn stop(&self) {
        current::stop();
    }

    /// A call whose answer is handled by a closure, while the process goes on with other messages: finish it with
    /// `then`.
    pub fn call<M: Send + 'static, T: Send + 'static, E: Send + 'static>(
        &mut self,
        call: Call<M, T, E>,
    ) -> CallThen<'_, P, M, T, E> {
        CallThen { context: PhantomData, call }
    }

    /// A future that runs beside the process's methods: finish it with `then`, whose closure gets its output.
    pub fn run<F>(&mut self, future: F) -> RunThen<'_, P, F>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        RunThen { context: PhantomData, future }
    }

    /// Waits that long; not at all for zero, for ever for `Duration::MAX`. Safe to cancel.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + use<P> {
        awaits::sleep(duration)
    }

    /// Waits until then; not at all for a time that is over. Safe to cancel.
    pub fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send + use<P> {
        awaits::sleep_until(Moment::from_instant(at))
    }

    /// The output of `future`, if it comes within `duration`; else the future is dropped. It is polled at least once,
    /// also for a duration of zero. As safe to cancel as the future is.
    ///
    /// # Errors
    /// [`Elapsed`], if it does not.
    pub fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> + use<P, F> {
        awaits::timeout(duration, future)
    }

    /// Ticks once every `period`, the first time after one period. A period of zero is taken as one nanosecond.
    pub fn interval(&self, period: Duration) -> Interval {
        Interval::new(period)
    }

    /// Hands a command to its handler and waits for the answer. Dropping the future drops the answer.
    pub fn perform<C: Command>(
        &self,
        command: C,
    ) -> impl Future<Output = Result<C::Output, CommandError>> + Send + use<P, C> {
        awaits::perform(command)
    }

    /// From here on the failure of a linked process is told to this one, as an [`Exit`](crate::Exit) signal, instead of
    /// ending it; or not any more. A process with a `#[signal]` method for [`Exit`](crate::Exit) does so from its
    /// start.
    pub fn trap_exits(&mut self, traps: bool) {
        crate::actor::send::links::trap_exits(traps);
    }

    /// Returns whether the process was told to end.
    pub fn is_cancelled(&self) -> bool {
        current::peek(|waits| waits.cancelled.is_some()).unwrap_or(false)
    }

    /// Waits until the process is told to end, and gives the reason. A process that awaits this when it is told is not
    /// ended by it: the body goes on, and decides. Safe to cancel.
    pub fn cancelled(&self) -> impl Future<Output = ExitReason> + Send + use<P> {
        awaits::cancelled()
    }

    /// Runs `future` to its end even if the process is told to end meanwhile. (A kill still cuts it short.)
    pub fn shield<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<P, F> {
        awaits::shield(future)
    }
}

/// A call that a closure is to follow.
#[must_use = "nothing is called until `.then(…)`"]
pub struct CallThen<'a, P, M, T, E> {
    /// The continuation gets it back.
    context: PhantomData<&'a mut Context<P>>,
    call: Call<M, T, E>,
}

impl<P: 'static, M: Send + 'static, T: Send + 'static, E: Send + 'static> CallThen<'_, P, M, T, E> {
    /// Makes the call; `then` runs with the answer, between two messages, unless the process has ended by then.
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

/// A future that a closure is to follow.
#[must_use = "nothing runs until `.then(…)`"]
pub struct RunThen<'a, P, F> {
    /// The continuation gets it back.
    context: PhantomData<&'a mut Context<P>>,
    future: F,
}

impl<P: 'static, F: Future<Output: Send + 'static> + Send + 'static> RunThen<'_, P, F> {
    /// Starts the future; `then` runs with its output, between two messages, unless the process has ended by then.
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
        current::with(|waits| waits.run_beside(future, number, Acts::Until(deadline)));
    }
}

impl<P> fmt::Debug for Context<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("pid", &self.pid).field("entry", &self.entry()).finish_non_exhaustive()
    }
}

impl<P, M, T, E> fmt::Debug for CallThen<'_, P, M, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallThen").field("call", &self.call).finish()
    }
}

impl<P, F> fmt::Debug for RunThen<'_, P, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunThen")
    }
}

/// Keeps a continuation in the process's table, where its number is.
pub(crate) fn add_continuation<P: 'static>(continuation: Continuation<P>) -> usize {
    let number = current::with(|waits| {
        let continuations = waits.continuations.get_or_insert_with(|| Box::new(Slab::<Continuation<P>>::new()));
        continuations.downcast_mut::<Slab<Continuation<P>>>().map(|continuations| continuations.insert(continuation))
    });
    // There is a process with a table of its own: a context is used by its methods only.
    number.flatten().unwrap_or(usize::MAX)
}

/// Runs a continuation whose answer has come.
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

/// The continuations of a process that is upgraded, for its new definition: what they wait for will come as messages.
/// The closures are dropped, with all that they hold.
pub(crate) fn carry_over<P: 'static, N: 'static>(continuations: Box<dyn Any + Send>) -> Box<dyn Any + Send> {
    let old = match continuations.downcast::<Slab<Continuation<P>>>() {
        Ok(old) => *old,
        Err(other) => return other,
    };
    let new: Slab<Continuation<N>> = old
        .into_iter()
        .map(|(number, Continuation { run, late })| {
            drop(run);
            let run = Box::new(move |_: &mut N, answer, context: &mut Context<N>| {
                if let Some(pid) = context.pid {
                    let package = Package::from_parts(pid, late(answer), None);
                    current::with(|waits| waits.inbox.push_back(Inbound::of(package)));
                }
            });
            (number, Continuation { run, late })
        })
        .collect();
    Box::new(new)
}

impl<M, T: fmt::Debug, E: fmt::Debug> fmt::Debug for Answered<M, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answered").field("result", &self.result).finish()
    }
}
