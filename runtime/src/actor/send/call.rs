//! The caller's side of a call.

use crate::actor::tasks::time_source::{OwnedTimer, now_and_timeout_outside, now_for, time_keeper};
use crate::actor::tasks::{CommandResult, OutsideWait, WaitKey, Waits, current, waker};
use crate::call::{answer::AnswerNode, call_id::CallId, caller::Caller};
use crate::deadlock::edges::{self, CallWait};
use crate::engine::{
    blocking::block_in_place::while_blocked, context::thread::current_pid, context::thread::with_current,
    lifecycle::spawn::current_host, sched::launch::is_of_a_host,
};
use crate::env::clock::{Moment, has_virtual_clock, instant_now};
use crate::mailbox::payload::{HeldMessage, MessagePlace, Packed, is_in_place};
use crate::util::debug::impl_debug;
use crate::{
    CallError, CommandError, Pid, SendError, actor::tasks::pending::RowState, deadlock::wait_graph::Incarnation,
    errors::Cycle, errors::SendFailure, pid::incarnation, this_node,
};
use std::future::{Future, IntoFuture, poll_fn};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use std::{convert::Infallible, marker::PhantomData, mem::ManuallyDrop, pin::Pin};

/// The timeout of a call, unless the call or [`Builder::call_timeout`](crate::Builder::call_timeout) sets another: five
/// seconds. It also applies to a call from outside of processes to another node, or to a supervised child that has no
/// process at the moment.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// A message that is ready to be sent, or to be used for a call. `M` is its type; `T` and `E` are the types of the
/// answer.
///
/// The methods of an [`Address`](crate::Address) return it. Nothing happens until one of these is called:
///
/// | | waits for | at a full mailbox with a [soft bound](crate::Bound::Soft) |
/// |---|---|---|
/// | [`send`](Self::send) | nothing | suspends a sending process after its step; fails in other code |
/// | [`try_send`](Self::try_send) | nothing | fails |
/// | [`send_wait`](Self::send_wait) | room in the mailbox | blocks the thread |
/// | [`send_async`](Self::send_async) | room in the mailbox | waits; for async code |
/// | `.await` | the answer | as `send`; for async code |
/// | [`wait`](Self::wait) | the answer; blocks the thread | as `send` |
/// | [`send_after`](Self::send_after), [`send_every`](Self::send_every) | nothing | the message is a dead letter |
///
/// A call waits for [`DEFAULT_TIMEOUT`] unless it or the builder sets another timeout. A call that a method makes while
/// it handles another call waits no longer than the caller of that method does. Dropping a waiting call cancels it: its
/// answer is discarded, but its message may still be handled.
///
/// ```
/// use postroom::prelude::*;
/// use std::time::Duration;
///
/// #[process]
/// struct Account { balance: u64 }
///
/// #[process]
/// impl Account {
///     #[entry]
///     fn serve(&mut self) {}
///     #[message]
///     fn withdraw(&mut self, amount: u64) -> Result<u64, &'static str> {
///         self.balance = self.balance.checked_sub(amount).ok_or("overdrawn")?;
///         Ok(self.balance)
///     }
/// }
///
/// let runtime = Runtime::new()?;
/// let account = runtime.spawn(Account { balance: 100 }).serve()?;
/// account.withdraw(10).send()?; // no answer
/// assert_eq!(account.withdraw(20).timeout(Duration::from_secs(1)).wait()?, 70);
/// assert_eq!(account.withdraw(80).wait(), Err(CallError::Failed("overdrawn")));
/// let left = runtime.block_on(async { account.withdraw(30).await })?;
/// assert_eq!(left, 40);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a call does nothing until it is sent with `.send()`, awaited, or waited for with `.wait()`"]
pub struct Call<M, T = (), E = Infallible> {
    pid: Pid,
    method: &'static str,
    message: HeldMessage<M>,
    limit: Limit,
    answer: PhantomData<fn() -> (T, E)>,
}

#[derive(Clone, Copy)]
enum Limit {
    Default,
    After(Duration),
    At(Moment),
}

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> Call<M, T, E> {
    /// Creates a call to `pid` with `message`; `method` is a name for display, such as `Type::method`.
    #[inline]
    pub fn new(pid: Pid, method: &'static str, message: M) -> Self {
        Self::made(pid, method, MessagePlace::new(), message)
    }

    /// Like [`new`](Self::new), but moves the message to `place`, which was taken before the message was built. For
    /// generated code.
    #[doc(hidden)]
    #[inline(always)]
    pub fn made(pid: Pid, method: &'static str, place: MessagePlace<M>, message: M) -> Self {
        Self { pid, method, message: place.fill(message), limit: Limit::Default, answer: PhantomData }
    }

    /// Returns the PID of the receiver.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the message.
    pub fn message(&self) -> &M {
        self.message.get()
    }

    /// Returns the message without sending it.
    pub fn into_message(self) -> M {
        self.message.into_value()
    }

    /// Returns the PID of the receiver, and the message without moving it out of its place.
    pub(crate) fn into_parts(self) -> (Pid, HeldMessage<M>) {
        (self.pid, self.message)
    }

    /// Returns the name of the method, as `Type::method`.
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// Sets how long to wait for the answer. [`Duration::MAX`] waits without a limit. Zero still sends the message,
    /// and fails with [`CallError::Timeout`] unless the answer arrives at once.
    ///
    /// Time is measured by the runtime's clock in a process and in async code, and by the system's clock on a plain
    /// thread.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limit = Limit::After(timeout);
        self
    }

    /// Sets the time at which the call stops waiting. A deadline that has passed acts like a [timeout](Self::timeout)
    /// of zero.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.limit = Limit::At(Moment::from_instant(deadline));
        self
    }

    pub(crate) fn until(self, deadline: Option<Moment>) -> Self {
        Self { limit: deadline.map_or(self.limit, Limit::At), ..self }
    }

    /// Sends the message and expects no answer. A process that sends to a full mailbox is suspended after its step
    /// until there is room: see [`Bound`](crate::Bound). Blocks only at a full mailbox with the hard bound
    /// [`Overflow::Wait`](crate::Overflow::Wait).
    ///
    /// # Errors
    /// The message and the reason: [`Gone`](crate::error::SendFailure::Gone),
    /// [`Restarting`](crate::error::SendFailure::Restarting) or [`Shutdown`](crate::error::SendFailure::Shutdown) if no
    /// process can handle it; [`Full`](crate::error::SendFailure::Full) if the mailbox is full and the sender is not a
    /// process; [`UnknownNode`](crate::error::SendFailure::UnknownNode) and the other variants for PIDs from elsewhere.
    #[inline]
    pub fn send(self) -> Result<(), SendError<M>> {
        send_held(self.pid, self.message)
    }

    /// Blocks the thread until the answer arrives. In async code, await the call instead. Inside a process, this costs
    /// a thread: another one runs the other processes in the meantime, including the called one.
    ///
    /// # Errors
    /// A [`CallError`]: [`Failed`](CallError::Failed) with the method's own error, [`Timeout`](CallError::Timeout) at
    /// the deadline, or one of the variants that tell why there will be no answer.
    pub fn wait(self) -> Result<T, CallError<E>> {
        self.attempt().unwrap_or_else(|refused| Err(refused.into()))
    }

    /// Like [`wait`](Self::wait), but returns a message that was refused.
    pub(crate) fn attempt(self) -> Result<Result<T, CallError<E>>, SendError<M>> {
        let deadline = self.due();
        let call = OutsideWait::new(current_pid());
        let (caller, ticket) = Caller::outside(call.call().clone(), deadline);
        let (pid, on, method) = (self.pid, serving(self.pid), self.method);
        send_with_caller_apart(pid, self.message, caller)?;
        let on = on.filter(|&on| is_still_serving(pid, on));
        let _waiting = match on.map_or(Ok(None), |on| block(on, method, ticket)) {
            Ok(waiting) => waiting,
            Err(cycle) => return Ok(Err(CallError::Cycle(cycle))),
        };
        // Waits in system time. In a process with a virtual clock, a timer ends the wait instead.
        let limiter = deadline.filter(|_| has_virtual_clock() && is_of_a_host()).zip(current_host());
        let limiter = limiter.and_then(|(deadline, host)| call.limit_by(host, deadline));
        let until = deadline.filter(|&deadline| limiter.is_none() && deadline != Moment::NEVER);
        let until = until.map(|deadline| instant_now() + deadline.since(now_for(self.pid)));
        let answer = while_blocked(|| call.wait(until));
        drop(limiter);
        Ok(answer.map_or(Err(CallError::Timeout), unpack))
    }

    /// Sends the message; the answer goes to the continuation with index `continuation`.
    pub(crate) fn begin_then(self, continuation: usize) {
        let deadline = self.due();
        let caller = current::with(|waits| {
            let key = waits.add(RowState::Continuation(continuation));
            let caller = waits.caller(key, deadline);
            if caller.is_none() {
                // The machine is driven by hand: no answer could arrive.
                waits.ready.push_back((continuation, Err(CommandError::Call(CallError::Dropped))));
            }
            caller
        });
        if let Some(caller) = caller.flatten() {
            // A refused message drops its caller, which answers the continuation.
            let _refused = send_with_caller_apart(self.pid, self.message, caller);
        }
    }

    /// Returns the call's own deadline, if it has one.
    pub(crate) fn limit(&self) -> Option<Moment> {
        self.limit.deadline(self.pid)
    }

    /// Returns the effective deadline: the call's own, or that of the call being served if it is sooner.
    pub(crate) fn due(&self) -> Option<Moment> {
        self.limit.due(self.pid)
    }
}

impl Limit {
    /// Returns the deadline that this limit sets for a call to `pid`, if any.
    #[inline]
    fn deadline(self, pid: Pid) -> Option<Moment> {
        match self {
            Self::Default => None,
            Self::After(timeout) => Some(now_for(pid).after(timeout)),
            Self::At(deadline) => Some(deadline),
        }
    }

    #[inline]
    fn due(self, pid: Pid) -> Option<Moment> {
        let own = self.deadline(pid).unwrap_or_else(|| default_deadline(pid));
        Some(current::deadline().map_or(own, |inherited| inherited.min(own)))
    }
}

/// If this thread runs a process, publishes that the process waits for this call and for nothing else.
///
/// # Errors
/// The cycle that the call would close.
#[inline(never)]
fn block(on: Incarnation, method: &'static str, ticket: CallId) -> Result<Option<CallWait>, Cycle> {
    let running = with_current(|context| context.and_then(|context| context.thread.running()));
    match running.and_then(|slot| Some(incarnation(slot.index(), slot.living()?))) {
        Some(incarnation) => edges::wait(incarnation, on, method, ticket, true),
        None => Ok(None),
    }
}

/// Returns the deadline of a call that sets none. In a process, it is accurate to a third of a millisecond.
#[inline]
fn default_deadline(pid: Pid) -> Moment {
    match with_current(|context| context.map(|context| context.host.config.call_timeout)) {
        Some(timeout) => Moment::about_now().after(timeout),
        None => default_deadline_outside(pid),
    }
}

#[cold]
#[inline(never)]
fn default_deadline_outside(pid: Pid) -> Moment {
    let (now, timeout) = now_and_timeout_outside(pid);
    now.after(timeout.unwrap_or(DEFAULT_TIMEOUT))
}

#[inline(always)]
pub(crate) fn send<M: Send + 'static>(pid: Pid, message: M) -> Result<(), SendError<M>> {
    crate::routing::router::send(pid, message).map_err(|(message, reason)| SendError { message, reason })
}

/// Sends a message from where it is held, so that a large one is not moved again. Always inlined, so that a small one
/// is passed by value, without room for a block pointer.
#[inline(always)]
pub(crate) fn send_held<M: Send + 'static>(pid: Pid, message: HeldMessage<M>) -> Result<(), SendError<M>> {
    if is_sent_by_value::<M>() {
        return send(pid, message.into_value());
    }
    crate::routing::router::send(pid, Packed::of(message)).map_err(refused)
}

/// Returns whether a message is moved out of its place before it is sent. This is so for a small message, which is
/// written to its node, and for one that is stored along with its origin.
#[inline(always)]
fn is_sent_by_value<M>() -> bool {
    crate::observe::spans::may_be_wanted() || is_in_place::<M>()
}

#[cold]
#[inline(never)]
fn refused<M: Send + 'static>((message, reason): (Packed, SendFailure)) -> SendError<M> {
    SendError { message: crate::routing::router::unpack(message.into_payload()), reason }
}

/// Returns the process that `pid` stands for now, packed in a word, if it belongs to this node. An alias may have
/// another target when the message is sent: see [`is_still_serving`].
#[inline]
fn serving(pid: Pid) -> Option<Incarnation> {
    let pid = if pid.is_alias() { pid.serving()? } else { pid };
    pid.is_of(this_node()).then(|| pid.incarnation())
}

/// Returns whether `pid` still leads to the process that it led to before the send. The target of an alias may have
/// changed in between, and a wait for the wrong process could be taken for part of a cycle.
#[inline]
fn is_still_serving(pid: Pid, on: Incarnation) -> bool {
    !pid.is_alias() || serving(pid) == Some(on)
}

#[inline(always)]
fn send_with_caller<M: Send + 'static>(pid: Pid, message: HeldMessage<M>, caller: Caller) -> Result<(), SendError<M>> {
    #[cfg(test)]
    crate::sync::window::pass(crate::sync::window::Window::BeforeCall);
    if !is_sent_by_value::<M>() {
        return crate::routing::router::call(pid, Packed::of(message), caller).map_err(refused);
    }
    crate::routing::router::call(pid, message.into_value(), caller)
        .map_err(|(message, reason)| SendError { message, reason })
}

/// Like [`send_with_caller`], but not inlined.
#[inline(never)]
fn send_with_caller_apart<M: Send + 'static>(
    pid: Pid,
    message: HeldMessage<M>,
    caller: Caller,
) -> Result<(), SendError<M>> {
    send_with_caller(pid, message, caller)
}

pub(crate) fn unpack<T: Send + 'static, E: Send + 'static>(answer: CommandResult) -> Result<T, CallError<E>> {
    match answer {
        Ok(payload) => match payload.take::<Result<T, E>>() {
            Ok(result) => result.map_err(CallError::Failed),
            // A method that cannot fail may answer a caller that expected an error type.
            Err(payload) => match payload.take::<Result<T, Infallible>>() {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(never)) => match never {},
                Err(payload) => {
                    let (expected, found) = (std::any::type_name::<Result<T, E>>(), payload.type_name());
                    Err(CallError::Mismatch { expected, found })
                }
            },
        },
        Err(CommandError::Call(error)) => Err(error.widen()),
        Err(_) => Err(CallError::Dropped),
    }
}

/// Like [`unpack`], for an answer that is still in its node.
#[inline]
fn open<T: Send + 'static, E: Send + 'static>(answer: AnswerNode) -> Result<T, CallError<E>> {
    match answer.open::<Result<T, E>>() {
        Ok(result) => result.map_err(CallError::Failed),
        Err(other) => open_another(other),
    }
}

#[cold]
#[inline(never)]
fn open_another<T: Send + 'static, E: Send + 'static>(answer: AnswerNode) -> Result<T, CallError<E>> {
    unpack(answer.into_result())
}

/// A call that waits for its answer. Dropping it cancels the call.
#[must_use = "a future does nothing until it is awaited"]
pub struct CallFuture<M, T = (), E = Infallible>(ManuallyDrop<CallStage<M>>, PhantomData<fn() -> Result<T, E>>);

/// A call that has not been sent; sending takes the message out.
struct UnsentCall<M> {
    pid: Pid,
    method: &'static str,
    message: Option<HeldMessage<M>>,
    limit: Limit,
}

enum CallStage<M> {
    Ready(UnsentCall<M>),
    /// Made inside a process: the key of the row, and the incarnation of the process that owns it.
    Process(WaitKey, Incarnation),
    /// Made outside of processes, or in another executor. The timer, if there is one, ends the call at its deadline,
    /// and is cancelled on drop.
    Outside(OutsideWait, #[expect(dead_code, reason = "held for its drop")] Option<OwnedTimer>),
    Over,
}

impl<M, T, E> Unpin for CallFuture<M, T, E> {}

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> IntoFuture for Call<M, T, E> {
    type Output = Result<T, CallError<E>>;
    type IntoFuture = CallFuture<M, T, E>;

    #[inline]
    fn into_future(self) -> Self::IntoFuture {
        let Self { pid, method, message, limit, .. } = self;
        let call = UnsentCall { pid, method, message: Some(message), limit };
        CallFuture(ManuallyDrop::new(CallStage::Ready(call)), PhantomData)
    }
}

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> Future for CallFuture<M, T, E> {
    type Output = Result<T, CallError<E>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A call that a process awaits is usually polled twice: to send it, and to find its answer. The second poll is
        // handled here.
        if let CallStage::Process(key, incarnation) = *self.0
            && let Some(answer) = current::take_answer(key, incarnation)
        {
            self.finish(CallStage::Over);
            return Poll::Ready(open(answer));
        }
        self.poll_unanswered(context)
    }
}

/// Polls the row of a call that has no answer yet, or that does not belong to the polling process. Returns ready
/// without an answer if the future was moved out of its process, since the answer goes to that process.
#[cold]
#[inline(never)]
fn poll_row(key: WaitKey, incarnation: Incarnation, context: &Context<'_>) -> Poll<Option<AnswerNode>> {
    let mut waker = waker::foreign_waker(context, incarnation);
    let poll = |waits: &mut Waits| (waits.incarnation == incarnation).then(|| waits.poll_call(key, &mut waker));
    current::with(poll).flatten().unwrap_or(Poll::Ready(None))
}

impl<M, T, E> CallFuture<M, T, E> {
    /// Replaces a stage that needs no drop.
    #[inline(always)]
    fn finish(&mut self, next: CallStage<M>) {
        debug_assert!(!matches!(
            *self.0,
            CallStage::Ready(UnsentCall { message: Some(_), .. }) | CallStage::Outside(..)
        ));
        self.0 = ManuallyDrop::new(next);
    }
}

impl<M: Send + 'static, T: Send + 'static, E: Send + 'static> CallFuture<M, T, E> {
    /// Sends the call, or polls a call that has no answer yet.
    #[inline(never)]
    fn poll_unanswered(&mut self, context: &mut Context<'_>) -> Poll<Result<T, CallError<E>>> {
        if let CallStage::Ready(call) = &mut *self.0
            && let Some(message) = call.message.take()
        {
            let (pid, method, deadline) = (call.pid, call.method, call.limit.due(call.pid));
            match self.send(pid, method, message, deadline, context) {
                Ok(true) => return Poll::Pending,
                Ok(false) => {}
                Err(error) => {
                    self.finish(CallStage::Over);
                    return Poll::Ready(Err(error.into()));
                }
            }
        }
        match &mut *self.0 {
            CallStage::Process(key, incarnation) => match poll_row(*key, *incarnation, context) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(answer) => {
                    self.finish(CallStage::Over);
                    Poll::Ready(answer.map_or(Err(CallError::Dropped), open))
                }
            },
            CallStage::Outside(call, _) => match call.poll(context.waker()) {
                Poll::Ready(answer) => {
                    *self.0 = CallStage::Over;
                    Poll::Ready(unpack(answer))
                }
                Poll::Pending => Poll::Pending,
            },
            CallStage::Ready(_) | CallStage::Over => Poll::Pending,
        }
    }

    /// Sends `call`, and returns a future for its answer.
    pub(crate) async fn sent(call: Call<M, T, E>) -> Result<Self, SendError<M>> {
        let mut sent = Self(ManuallyDrop::new(CallStage::Over), PhantomData);
        let mut unsent = Some(call);
        let mut send = |context: &mut Context<'_>| {
            let Some(call) = unsent.take() else { return Ok(true) };
            let due = call.due();
            sent.send(call.pid, call.method, call.message, due, context)
        };
        poll_fn(|context| Poll::Ready(send(context))).await?;
        Ok(sent)
    }

    /// Sends the message, from inside a process or from outside (including from an executor that a method runs).
    /// Returns whether the call counts as polled. It does if a process awaits it with its own waker, because that
    /// process looks for the answer anyway.
    #[inline]
    fn send(
        &mut self,
        pid: Pid,
        method: &'static str,
        message: HeldMessage<M>,
        deadline: Option<Moment>,
        context: &Context<'_>,
    ) -> Result<bool, SendError<M>> {
        let on = serving(pid);
        let inside = current::with(|waits| {
            let incarnation = waits.incarnation;
            let is_own = waker::is_own(context, incarnation);
            if !is_own && !current::is_polled(incarnation, context) {
                return None;
            }
            let (key, caller) = waits.add_call(deadline, on.map(|on| (on, method)), is_own)?;
            Some((key, incarnation, caller, is_own))
        });
        if let Some((key, incarnation, caller, is_own)) = inside.flatten() {
            // A refused message drops its caller, which answers the row. Nothing reads the row any more.
            if let Err(error) = send_with_caller(pid, message, caller) {
                let _unseen = current::with(|waits| waits.forget(key));
                return Err(error);
            }
            if pid.is_alias() && on.is_some_and(|on| !is_still_serving(pid, on)) {
                current::with(|waits| waits.forget_called(key));
            }
            self.finish(CallStage::Process(key, incarnation));
            return Ok(is_own);
        }
        // Limited by the program's timekeeper, because the called host may end before the call. For a host with a
        // virtual clock, by that host's timekeeper.
        let virtual_clock = time_keeper(pid).filter(|time_keeper| time_keeper.clock_override().is_some());
        let (outside, limiter) = match (deadline.filter(|&deadline| deadline != Moment::NEVER), virtual_clock) {
            (Some(deadline), None) => OutsideWait::limited(current_pid(), deadline),
            (deadline, time_keeper) => {
                let outside = OutsideWait::new(current_pid());
                let limiter = deadline.zip(time_keeper).and_then(|(deadline, by)| outside.limit_by(by, deadline));
                (outside, limiter)
            }
        };
        let (caller, _ticket) = Caller::outside(outside.call().clone(), deadline);
        send_with_caller_apart(pid, message, caller)?;
        *self.0 = CallStage::Outside(outside, limiter);
        Ok(false)
    }
}

/// Removes the row of a dropped future.
#[cold]
#[inline(never)]
fn forget(key: WaitKey, incarnation: Incarnation) {
    let _unseen = current::with(|waits| (waits.incarnation == incarnation).then(|| waits.forget(key)));
}

impl<M, T, E> CallFuture<M, T, E> {
    /// Cancels a call that was sent, or discards a call that was not.
    #[cold]
    #[inline(never)]
    fn cancel(&mut self) {
        match &*self.0 {
            CallStage::Process(key, incarnation) => forget(*key, *incarnation),
            CallStage::Outside(..) | CallStage::Ready(_) | CallStage::Over => {}
        }
        // Also drops the message, or the wait and its timer.
        *self.0 = CallStage::Over;
    }
}

impl<M, T, E> Drop for CallFuture<M, T, E> {
    #[inline(always)]
    fn drop(&mut self) {
        // Usually false: an awaited call is dropped after it has received its answer.
        if !matches!(*self.0, CallStage::Over) {
            self.cancel();
        }
    }
}

impl_debug!([M, T, E] Call<M, T, E>, self => "Call" { pid: self.pid, method: self.method, .. });
impl_debug!([M, T, E] CallFuture<M, T, E>, self => "CallFuture");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;
    use crate::process::fixtures::OnMessage;
    use crate::sync::window::{Window, do_in};
    use std::sync::mpsc::{Receiver, channel};

    fn call(pid: Pid) -> Result<u8, CallError> {
        Call::<u8, u8>::new(pid, "call", 1).timeout(Duration::from_secs(3_600)).wait()
    }

    /// `first` has the name and waits for `caller`. `caller` calls by name; before that call is sent, the name moves to
    /// `second`.
    ///
    /// Catches: the call counts as a call to the process that had the name before, and so closes a false cycle.
    /// (Awaited calls make the same check, but that check has no test.)
    #[test]
    fn a_name_that_moves_while_it_is_called_makes_no_cycle() {
        let runtime = Runtime::builder().workers(2).build().expect("two workers");
        let host = runtime.host();
        let name = "moves";
        let second = runtime.spawn_process(OnMessage(drop)).start().expect("it starts");
        let (go, may_go): (_, Receiver<Pid>) = channel();
        let (tell, told) = channel();
        let caller = runtime.spawn_process(OnMessage(move |_| {
            let Ok(by_name) = may_go.recv() else { return };
            do_in(Window::BeforeCall, move || {
                host.unregister_name(name);
                host.register_name(name, second).expect("it lives");
            });
            tell.send(call(by_name)).expect("the test waits");
        }));
        let caller = caller.start().expect("it starts");
        let first = runtime.spawn_process(OnMessage(move |_| _ = call(caller))).named(name).start().expect("it starts");
        let by_name = host.scheduler().names.alias(&crate::names::name::Name::new(name).expect("a name"));
        runtime.send(caller, ()).expect("it lives");
        runtime.send(first, ()).expect("it lives");
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while edges::waits_for(first).is_none() {
            assert!(std::time::Instant::now() < until, "`first` waits for `caller`");
            std::thread::yield_now();
        }
        go.send(by_name).expect("it waits");
        let answer = told.recv_timeout(Duration::from_secs(60)).expect("no cycle, and no wait without end");
        assert_eq!(answer, Err(CallError::Unhandled), "`second` gives it up");
    }
}
