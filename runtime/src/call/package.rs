//! A message on its way or just arrived: what it is, whom it is for, and who waits for an answer.

use super::caller::{self, Caller};
use super::dead_letter::{DeadLetter, DeadLetterReason, bring};
use crate::errors::{CallError, SendFailure};
use crate::mailbox::payload::Payload;
use crate::pid::Pid;
use std::fmt;
use std::mem::ManuallyDrop;

/// A message with its address, and the caller that waits for an answer if there is one.
///
/// A package that is dropped unopened is a dead letter, and was not delivered: its caller is told that no process
/// understood it, or, if the process ends with the package in hand, why it ended.
pub struct Package {
    to: Pid,
    payload: ManuallyDrop<Payload>,
    caller: Option<Caller>,
}

impl Package {
    /// A message for `to`, of any type.
    pub fn new<M: Send + 'static>(to: Pid, message: M) -> Self {
        Self::from_parts(to, Payload::new(message), None)
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

    /// Whom it is for.
    pub fn to(&self) -> Pid {
        self.to
    }

    /// Returns whether the message is an `M`.
    #[inline]
    pub fn is<M: 'static>(&self) -> bool {
        self.payload.is::<M>()
    }

    /// The name of the message's type, for messages to people.
    pub fn type_name(&self) -> &'static str {
        self.payload.type_name()
    }

    /// Returns whether someone waits for an answer.
    pub fn has_caller(&self) -> bool {
        self.caller.is_some()
    }

    /// The message, if it is an `M`. A caller is told that its call was dropped; use [`Package::answer`] to answer it.
    ///
    /// # Errors
    /// The package, if the message is of another type.
    #[inline]
    pub fn take<M: Send + 'static>(self) -> Result<M, Self> {
        self.split().map(|(message, _caller)| message)
    }

    /// The message, if it is an `M`, handled by `handle`, whose result goes to the caller if there is one.
    ///
    /// # Errors
    /// The package, if the message is of another type.
    pub fn answer<M: Send + 'static, T: Send + 'static>(self, handle: impl FnOnce(M) -> T) -> Result<(), Self> {
        self.split::<M>().map(|(message, caller)| {
            let answer = handle(message);
            if let Some(caller) = caller {
                caller.answer(Payload::new(Ok::<T, std::convert::Infallible>(answer)));
            }
        })
    }

    /// From here on it is not known who will answer it. Returns whether it may be handled: not if its caller has
    /// withdrawn it, see [`ticket`](crate::call::call_id).
    #[inline]
    pub(crate) fn keep(&self) -> bool {
        self.caller.as_ref().is_none_or(Caller::keep)
    }

    /// It is about to be handled. Returns whether it may be, as [`keep`](Self::keep) does.
    pub(crate) fn take_up(&self) -> bool {
        self.caller.as_ref().is_none_or(Caller::take)
    }

    /// Throws away one that its caller has withdrawn.
    #[cold]
    pub(crate) fn throw_away(self) {
        let (to, message, caller) = self.into_parts();
        bring(DeadLetter { to, message, reason: DeadLetterReason::Withdrawn });
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

/// A package that a [`Receiver`](crate::routing::router::Receiver) refused; it comes back whole.
#[derive(Debug, thiserror::Error)]
#[error("a package was refused: {reason}")]
pub struct Undeliverable {
    /// The package.
    pub package: Package,
    /// Why.
    pub reason: SendFailure,
}

impl Drop for Package {
    fn drop(&mut self) {
        // A process that ends, or panics, with a package in hand has not come to it: its caller learns why it ended.
        let ends = caller::is_ending() || std::thread::panicking();
        // SAFETY: the package is being dropped, so the payload is taken once.
        let message = unsafe { ManuallyDrop::take(&mut self.payload) };
        let reason = if ends { DeadLetterReason::Ended } else { DeadLetterReason::Unhandled };
        bring(DeadLetter { to: self.to, message, reason });
        // After the envelope: a caller that is told finds it counted.
        match self.caller.take() {
            Some(caller) if ends => caller.drop_unopened(),
            Some(caller) => caller.fail(CallError::Unhandled),
            None => {}
        }
    }
}

impl fmt::Debug for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Package")
            .field("to", &self.to)
            .field("message", &self.type_name())
            .field("has_caller", &self.has_caller())
            .finish()
    }
}
