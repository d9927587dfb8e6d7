//! What a method can do besides changing its struct.

use super::call::{Call, send};
use super::target::SendTo;
use super::waits::{self, Answer, Owner, WaitKey};
use crate::clock::{Moment, instant_now};
use crate::command::Command;
use crate::errors::{CallError, CommandError, SendError};
use crate::exit::ExitReason;
use crate::payload::Payload;
use crate::pid::Pid;
use crate::scheduler::birth::inherited_values;
use crate::scheduler::local::with_current;
use crate::sync::Arc;
use crate::table::TABLE;
use slab::Slab;
use std::any::TypeId;
use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

type Continuation<P> = Box<dyn FnOnce(&mut P, Answer, &mut Context<P>) + Send>;

/// What a method can do besides changing its struct: know who and where it is, spawn, call, wait, end.
///
/// A message method, an entry or a signal method gets one by taking `ctx: &mut Context<Self>`. Of the methods that give a
/// future, those of the `serve` family and `receive` borrow it; all others borrow nothing, so that they can be joined and
/// selected.
pub struct Context<P> {
    pid: Option<Pid>,
    parent: Option<Pid>,
    entry: &'static str,
    continuations: Slab<Continuation<P>>,
    process: PhantomData<fn(P)>,
}

impl<P> Context<P> {
    pub(crate) fn new(pid: Option<Pid>, parent: Option<Pid>, entry: &'static str) -> Self {
        Self { pid, parent, entry, continuations: Slab::new(), process: PhantomData }
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
        self.parent
    }

    /// The entry that it was started at.
    pub fn entry(&self) -> &'static str {
        self.entry
    }

    /// Where in the source it was spawned.
    pub fn spawn_place(&self) -> Option<&'static Location<'static>> {
        TABLE.living(self.pid?)?.card.place()
    }

    /// When whoever called the method that runs now stops waiting.
    pub fn deadline(&self) -> Option<Instant> {
        let deadline = waits::deadline()?;
        Some(instant_now() + deadline.since(Moment::now()))
    }

    /// Now, by the clock that timers go by.
    pub fn now(&self) -> Instant {
        instant_now()
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
        waits::with(|waits| {
            waits.end.get_or_insert(ExitReason::Normal);
        });
    }

    /// A call whose answer is handled by a closure, while the process goes on with other messages: finish it with `then`.
    pub fn call<M: Send + 'static, T: Send + 'static, E: Send + 'static>(
        &mut self,
        call: Call<M, T, E>,
    ) -> CallThen<'_, P, M, T, E> {
        CallThen { context: self, call }
    }

    /// A future that runs beside the process's methods: finish it with `then`, whose closure gets its output.
    pub fn run<F>(&mut self, future: F) -> RunThen<'_, P, F>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        RunThen { context: self, future }
    }

    pub(crate) fn add_continuation(&mut self, continuation: Continuation<P>) -> usize {
        self.continuations.insert(continuation)
    }

    pub(crate) fn take_continuation(&mut self, number: usize) -> Option<Continuation<P>> {
        self.continuations.try_remove(number)
    }

    /// Waits that long; not at all for zero, for ever for `Duration::MAX`. Safe to cancel.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + use<P> {
        sleep(duration)
    }

    /// Ticks once every `period`, the first time after one period. A period of zero is taken as one nanosecond.
    pub fn interval(&self, period: Duration) -> Interval {
        let period = period.max(Duration::from_nanos(1));
        Interval { next: Moment::now().after(period), period, missed: Missed::default() }
    }

    /// Hands a command to its handler and waits for the answer. Dropping the future drops the answer.
    pub fn perform<C: Command>(
        &self,
        command: C,
    ) -> impl Future<Output = Result<C::Output, CommandError>> + Send + use<P, C> {
        perform(command)
    }

    /// Whether the process was told to end.
    pub fn is_cancelled(&self) -> bool {
        waits::peek(|waits| waits.cancelled.is_some()).unwrap_or(false)
    }

    /// Waits until the process is told to end, and gives the reason. A process that awaits this when it is told is not
    /// ended by it: the body goes on, and decides. Safe to cancel.
    pub fn cancelled(&self) -> impl Future<Output = ExitReason> + Send + use<P> {
        Cancelled { registered: false }
    }

    /// Runs `future` to its end even if the process is told to end meanwhile. (A kill still cuts it short.)
    pub fn shield<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<P, F> {
        struct Shield;
        impl Drop for Shield {
            fn drop(&mut self) {
                waits::with(|waits| {
                    waits.shields -= 1;
                    // Whether it came to its end or was dropped: what it held off is due now.
                    if waits.shields == 0 && waits.end_after_shield.is_some() {
                        waits.end = waits.end_after_shield.take();
                    }
                });
            }
        }
        async move {
            waits::with(|waits| waits.shields += 1);
            let shield = Shield;
            let output = future.await;
            drop(shield);
            end_if_cancelled().await;
            output
        }
    }
}

/// Ends here if the process was told to end while it could not.
async fn end_if_cancelled() {
    poll_fn(|_| {
        let over = waits::peek(|waits| waits.end.is_some());
        if over == Some(true) { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

/// A future's row in the table of the process that polls it.
struct Row {
    key: Option<WaitKey>,
    owner: Owner,
}

impl Row {
    fn poll(&self, context: &TaskContext<'_>) -> Poll<Option<Answer>> {
        let Some(key) = self.key else {
            return Poll::Pending;
        };
        let waker = waits::foreign_waker(context, self.owner);
        let polled = waits::with(|waits| waits.is_of(self.owner).then(|| waits.poll(key, waker)));
        polled.flatten().unwrap_or(Poll::Pending)
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let _unseen = waits::with(|waits| waits.is_of(self.owner).then(|| waits.forget(key)));
        }
    }
}

/// A row, filled in by `begin` in the table of the process that polls for the first time.
fn row(begin: impl FnOnce(&mut waits::Waits, WaitKey)) -> Row {
    let made = waits::with(|waits| {
        let owner = waits.owner();
        let key = waits.add_future();
        begin(waits, key);
        Row { key: Some(key), owner }
    });
    made.unwrap_or(Row { key: None, owner: None })
}

pub(crate) async fn sleep(duration: Duration) {
    if duration.is_zero() {
        return;
    }
    sleep_until(Moment::now().after(duration)).await;
}

async fn sleep_until(due: Moment) {
    if due <= Moment::now() {
        return;
    }
    let row = row(|waits, key| waits.set_timer(key, due));
    poll_fn(|context| row.poll(context).map(|_| ())).await;
}

async fn perform<C: Command>(command: C) -> Result<C::Output, CommandError> {
    let name = std::any::type_name::<C>();
    let mut caller = None;
    let row = row(|waits, key| caller = waits.caller(key, None));
    let Some(caller) = caller else {
        return Err(CommandError::Unregistered { command: name });
    };
    let mut command = Some((Payload::new(command), caller));
    with_current(|context| {
        if let (Some(context), Some((command, caller))) = (context, command.take()) {
            context.host.config.dispatcher.dispatch(command, caller);
        }
    });
    drop(command);
    let answer = poll_fn(|context| row.poll(context)).await;
    match answer.unwrap_or(Err(CommandError::Dropped)) {
        Ok(value) => value.take::<C::Output>().map_err(|_| CommandError::Dropped),
        Err(CommandError::Call(CallError::Dropped)) => Err(CommandError::Dropped),
        Err(error) => Err(error),
    }
}

struct Cancelled {
    registered: bool,
}

impl Future for Cancelled {
    type Output = ExitReason;

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<ExitReason> {
        let waker = context.waker().clone();
        let first = !self.registered;
        let reason = waits::with(|waits| {
            if waits.cancelled.is_none() {
                if first {
                    waits.awaits_cancel += 1;
                }
                if !waits.cancel_wakers.iter().any(|known| known.will_wake(&waker)) {
                    waits.cancel_wakers.push(waker);
                }
            }
            waits.cancelled.clone()
        });
        match reason.flatten() {
            Some(reason) => Poll::Ready(reason),
            None => {
                self.registered = true;
                Poll::Pending
            }
        }
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if self.registered {
            waits::with(|waits| waits.awaits_cancel -= 1);
        }
    }
}

/// What an [`Interval`] does about ticks that nobody was there for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// They are left out; the next tick comes when it would have come anyway.
    #[default]
    Skip,
    /// They come at once, one after the other.
    Burst,
    /// The next tick comes one period after this late one.
    Delay,
}

/// Ticks. See [`Context::interval`].
#[derive(Debug)]
pub struct Interval {
    next: Moment,
    period: Duration,
    missed: Missed,
}

impl Interval {
    /// What to do about ticks that nobody was there for.
    #[must_use]
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Waits for the next tick. Safe to cancel: the tick is not lost.
    pub async fn tick(&mut self) {
        sleep_until(self.next).await;
        let now = Moment::now();
        let regular = self.next.after(self.period);
        self.next = match self.missed {
            Missed::Burst => regular,
            Missed::Delay => now.after(self.period),
            Missed::Skip if regular >= now => regular,
            Missed::Skip => {
                let period = self.period.as_nanos();
                let missed = now.since(self.next).as_nanos() / period;
                let skipped = u64::try_from(period * (missed + 1)).unwrap_or(u64::MAX);
                self.next.after(Duration::from_nanos(skipped))
            }
        };
    }
}

/// A call that a closure is to follow.
#[must_use = "nothing is called until `.then(…)`"]
pub struct CallThen<'a, P, M, T, E> {
    context: &'a mut Context<P>,
    call: Call<M, T, E>,
}

impl<P: 'static, M: Send + 'static, T: Send + 'static, E: Send + 'static> CallThen<'_, P, M, T, E> {
    /// Makes the call; `then` runs with the answer, between two messages, unless the process has ended by then.
    pub fn then(self, then: impl FnOnce(&mut P, Result<T, CallError<E>>, &mut Context<P>) + Send + 'static) {
        let deadline = waits::deadline();
        let number = self.context.add_continuation(Box::new(move |this, answer, context| {
            let outer = waits::set_deadline(deadline);
            then(this, super::call::unpack(answer), context);
            waits::set_deadline(outer);
        }));
        self.call.begin_then(number);
    }
}

/// A future that a closure is to follow.
#[must_use = "nothing runs until `.then(…)`"]
pub struct RunThen<'a, P, F> {
    context: &'a mut Context<P>,
    future: F,
}

impl<P: 'static, F: Future<Output: Send + 'static> + Send + 'static> RunThen<'_, P, F> {
    /// Starts the future; `then` runs with its output, between two messages, unless the process has ended by then.
    pub fn then(self, then: impl FnOnce(&mut P, F::Output, &mut Context<P>) + Send + 'static) {
        let deadline = waits::deadline();
        let number = self.context.add_continuation(Box::new(move |this, answer, context| {
            if let Ok(Ok(output)) = answer.map(Payload::take::<F::Output>) {
                let outer = waits::set_deadline(deadline);
                then(this, output, context);
                waits::set_deadline(outer);
            }
        }));
        let future = self.future;
        let future = Box::pin(async move { Payload::new(future.await) });
        waits::with(|waits| waits.run_beside(future, number));
    }
}

impl<P> fmt::Debug for Context<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("pid", &self.pid).field("entry", &self.entry).finish_non_exhaustive()
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

/// Runs a continuation whose answer has come.
pub(crate) fn run_continuation<P>(this: &mut P, context: &mut Context<P>, number: usize, answer: Answer) {
    if let Some(continuation) = context.take_continuation(number) {
        continuation(this, answer, context);
    }
}
