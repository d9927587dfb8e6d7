//! A message with its destination and its caller.

use super::caller::{self, Caller};
use super::dead_letter::{DeadLetter, DeadLetterReason, Sink, bring};
use crate::errors::{CallError, Delivery, SendFailure};
use crate::observe::spans::{self, EnteredSpan, HeldSpan};
use crate::{mailbox::payload::Payload, pid::Pid, util::debug::impl_debug};
use std::mem::ManuallyDrop;

/// A message with its destination, and its caller if it has one.
///
/// A package that is dropped unopened counts as not delivered, and becomes a dead letter. Its caller gets an error,
/// which says that the message was unhandled or, if the process ends while it holds the package, why the process ended.
pub struct Package {
    to: Pid,
    payload: ManuallyDrop<Payload>,
    caller: Option<Caller>,
}

impl Package {
    /// Creates a package for `to` with a message of any type.
    pub fn new<M: Send + 'static>(to: Pid, message: M) -> Self {
        Self::from_parts(to, Payload::sent(message), None)
    }

    #[inline]
    pub(crate) fn from_parts(to: Pid, payload: Payload, caller: Option<Caller>) -> Self {
        Self { to, payload: ManuallyDrop::new(payload), caller }
    }

    #[inline]
    pub(crate) fn into_parts(self) -> (Pid, Payload, Option<Caller>) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the payload is taken once.
        (this.to, unsafe { ManuallyDrop::take(&mut this.payload) }, this.caller.take())
    }

    pub(crate) fn readdressed(mut self, to: Pid) -> Self {
        self.to = to;
        self
    }

    /// Reports the package to `sink` as a dead letter, and only then fails its call, so that the caller finds the dead
    /// letter counted.
    pub(crate) fn fail(self, sink: &'static dyn Sink, reason: DeadLetterReason, error: CallError) {
        let (to, message, caller) = self.into_parts();
        sink.dead_letter(DeadLetter::new(to, message, reason, caller.as_ref()));
        if let Some(caller) = caller {
            caller.fail(error);
        }
    }

    /// Opens and enters the span in which its message is handled.
    pub(crate) fn enter_span(&self) -> Option<EnteredSpan<HeldSpan>> {
        self.open_span().map(HeldSpan::enter)
    }

    /// Opens the span in which its message is handled, if a subscriber may want it.
    pub(crate) fn open_span(&self) -> Option<HeldSpan> {
        if !spans::may_be_wanted() {
            return None;
        }
        spans::open(self.payload.origin(), Some(self.to), self.type_name())
    }

    /// Returns the destination.
    pub fn to(&self) -> Pid {
        self.to
    }

    /// Returns whether the message is an `M`.
    #[inline]
    pub fn is<M: 'static>(&self) -> bool {
        self.payload.is::<M>()
    }

    /// Returns the name of the message's type.
    pub fn type_name(&self) -> &'static str {
        self.payload.type_name()
    }

    /// Returns whether the message was sent to one process by a periodic timer.
    pub(crate) fn is_tick(&self) -> bool {
        self.payload.is_tick()
    }

    /// Returns whether a caller waits for an answer.
    pub fn has_caller(&self) -> bool {
        self.caller.is_some()
    }

    /// Takes the message, if it is an `M`. If the package has a caller, its call fails as dropped; to answer a call,
    /// use [`Package::answer`].
    ///
    /// # Errors
    /// The package, if the message is of another type.
    #[inline]
    pub fn take<M: Send + 'static>(self) -> Result<M, Self> {
        self.split().map(|(message, _caller)| message)
    }

    /// Passes the message to `handle` if it is an `M`. Answers the caller, if there is one, with the returned value,
    /// like a method that cannot fail. To answer with an error, use [`Package::answer_result`].
    ///
    /// # Errors
    /// The package, if the message is of another type.
    pub fn answer<M: Send + 'static, T: Send + 'static>(self, handle: impl FnOnce(M) -> T) -> Result<(), Self> {
        self.answer_result(|message| Ok::<T, std::convert::Infallible>(handle(message)))
    }

    /// Passes the message to `handle` if it is an `M`. Answers the caller, if there is one, with the result, like a
    /// method that returns a `Result<T, E>`: an `Err` fails the call with [`CallError::Failed`].
    ///
    /// # Errors
    /// The package, if the message is of another type.
    pub fn answer_result<M, T, E>(self, handle: impl FnOnce(M) -> Result<T, E>) -> Result<(), Self>
    where
        M: Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        let _span = self.is::<M>().then(|| self.enter_span());
        self.split::<M>().map(|(message, caller)| {
            let result = handle(message);
            if let Some(caller) = caller {
                caller.answer(Payload::new(result));
            }
        })
    }

    /// Called when user code takes over the package. Returns whether the message may be handled: false if it was
    /// withdrawn, see [`call_id`](crate::call::call_id).
    #[inline]
    pub(crate) fn keep(&self) -> bool {
        self.caller.as_ref().is_none_or(Caller::keep)
    }

    /// Called right before the message is handled. Returns whether it may be handled, like [`keep`](Self::keep).
    pub(crate) fn take_up(&self) -> bool {
        self.caller.as_ref().is_none_or(Caller::take)
    }

    #[cold]
    pub(crate) fn throw_away(self) {
        self.discard(DeadLetterReason::Withdrawn);
    }

    /// Discards a package that has no caller, or whose caller has been notified or has given up.
    #[cold]
    pub(crate) fn discard(self, reason: DeadLetterReason) {
        let (to, message, caller) = self.into_parts();
        bring(DeadLetter::new(to, message, reason, caller.as_ref()));
        drop(caller);
    }

    #[inline]
    pub(crate) fn split<M: Send + 'static>(self) -> Result<(M, Option<Caller>), Self> {
        if !self.is::<M>() {
            return Err(self);
        }
        let (to, payload, caller) = self.into_parts();
        payload.take().map(|message| (message, caller)).map_err(|payload| Self::from_parts(to, payload, None))
    }
}

/// A package that a [`Receiver`](crate::routing::transport::Receiver) refused, returned intact.
#[derive(Debug, thiserror::Error)]
#[error("a package was refused: {reason}")]
pub struct Undeliverable {
    /// The package.
    pub package: Package,
    /// The reason.
    pub reason: SendFailure,
}

impl Undeliverable {
    /// Returns [`Delivery::NotDelivered`]: a refused message has not been delivered.
    pub fn delivery(&self) -> Delivery {
        self.reason.delivery()
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        // A process that ends or panics while it holds a package has not opened it: the caller learns why the process
        // ended.
        let ends = caller::is_ending() || std::thread::panicking();
        // SAFETY: the package is being dropped, so the payload is taken once.
        let message = unsafe { ManuallyDrop::take(&mut self.payload) };
        let reason = match &self.caller {
            Some(caller) if caller.is_withdrawn() => DeadLetterReason::Withdrawn,
            _ if ends => DeadLetterReason::Ended,
            _ => DeadLetterReason::Unhandled,
        };
        bring(DeadLetter::new(self.to, message, reason, self.caller.as_ref()));
        // Done after the dead letter is reported, so that the caller finds it counted.
        match self.caller.take() {
            Some(caller) if ends => caller.drop_unopened(),
            Some(caller) => caller.fail(CallError::Unhandled),
            None => {}
        }
    }
}

impl_debug!([] Package, self => "Package" { to: self.to, message: self.type_name(), has_caller: self.has_caller() });
