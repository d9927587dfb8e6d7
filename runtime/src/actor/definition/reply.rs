//! The called end of a call.

use super::actor::{Declared, Dispatched};
use crate::actor::tasks::current;
use crate::call::caller;
use crate::call::caller::Caller;
use crate::call::package::Package;
use crate::engine::context::local::current_pid;
use crate::errors::ProcessError;
use crate::mailbox::payload::Payload;
use crate::process::handling;
use crate::process::mail::Mail;
use std::convert::Infallible;
use std::fmt;
use std::mem::ManuallyDrop;

/// The caller, if any, of the message that is handled now. For generated code.
#[derive(Debug)]
pub struct Asked {
    caller: Option<Caller>,
    message: fn() -> &'static str,
}

/// Opens a message for its method, if it is an `M`: from here on the process acts within the caller's deadline. For
/// generated code.
#[inline(always)]
pub fn open<M: Send + 'static>(mail: &mut Mail<'_>) -> Option<(M, Asked)> {
    let (message, caller) = mail.open::<M>()?;
    if caller.as_ref().is_some_and(|caller| !caller.take()) {
        throw_away(message, caller);
        // The mail is opened, and empty: what follows finds nothing in it.
        return None;
    }
    if caller.is_some() || current::has_deadline() {
        current::set_deadline(caller.as_ref().and_then(Caller::deadline));
    }
    Some((message, Asked { caller, message: std::any::type_name::<M> }))
}

/// The same for a message that is larger than a process's room on the stack is for: it is moved once, into `to`. For
/// generated code.
#[inline(never)]
pub fn open_into<M: Send + 'static>(mail: &mut Mail<'_>, to: &mut Option<M>) -> Option<Asked> {
    let caller = mail.open_into(to)?;
    if caller.as_ref().is_some_and(|caller| !caller.take()) {
        if let Some(message) = to.take() {
            throw_away(message, caller);
        }
        return None;
    }
    if caller.is_some() || current::has_deadline() {
        current::set_deadline(caller.as_ref().and_then(Caller::deadline));
    }
    Some(Asked { caller, message: std::any::type_name::<M> })
}

/// Returns whether a message is so large that it is handled in a function of its own: all that share one share the room
/// that it takes on the stack. A guess: one of this size costs more to move than a call does. For generated code.
#[inline(always)]
pub const fn is_large<M>() -> bool {
    size_of::<M>() > 1024
}

/// Calls it, in a frame of its own. For generated code.
#[inline(never)]
pub fn apart<R>(handle: impl FnOnce() -> R) -> R {
    handle()
}

/// A message that its caller has withdrawn.
#[cold]
fn throw_away<M: Send + 'static>(message: M, caller: Option<Caller>) {
    if let Some(pid) = current_pid() {
        Package::from_parts(pid, Payload::new(message), caller).throw_away();
    }
}

/// Apart, so that a message that was sent is handled without it.
#[inline(never)]
fn answer<T: Send + 'static>(caller: Caller, value: T) {
    caller.answer(Payload::new(Ok::<T, Infallible>(value)));
}

/// It is dropped unanswered when its process fails, or is ended, in the method: that is what its message is noted for.
impl Drop for Asked {
    fn drop(&mut self) {
        if std::thread::panicking() || caller::is_ending() {
            note(self.message);
        }
    }
}

#[cold]
fn note(message: fn() -> &'static str) {
    if let Some(pid) = current_pid() {
        handling::note(pid, message);
    }
}

impl Asked {
    /// The caller; from here on the method is over, or has it in hand.
    #[inline(always)]
    fn into_caller(self) -> Option<Caller> {
        let mut this = ManuallyDrop::new(self);
        this.caller.take()
    }

    /// Notes the message of a method that keeps its caller in hand, if the process fails in it.
    pub fn watch(&self) -> Watch {
        Watch(Self { caller: None, message: self.message })
    }

    /// Answers with what the method returned.
    #[inline(always)]
    pub fn answer<T: Send + 'static>(self, value: T) -> Dispatched<'static> {
        if let Some(caller) = self.into_caller() {
            answer(caller, value);
        }
        Dispatched::Done
    }

    /// Answers with what the method returned. An error of a message that was sent, not called, has no caller to go to:
    /// it is reported, and ends the process if that is how it was declared.
    pub fn answer_result<P: Declared, T: Send + 'static, E: Send + 'static>(
        self,
        result: Result<T, E>,
        describe: impl FnOnce(&E) -> String,
    ) -> Dispatched<'static> {
        let message = self.message;
        let mut caller = self.into_caller();
        // One that only hears of it is told by its drop.
        if let Some(caller) = caller.take_if(|caller| !caller.was_sent()) {
            caller.answer(Payload::new(result));
            return Dispatched::Done;
        }
        let Err(error) = result else { return Dispatched::Done };
        let error = describe(&error);
        let pid = current_pid();
        let pid = pid.map(tracing::field::display);
        crate::util::log::warn!(pid, process = P::NAME, message_type = message(), %error, "a message that was sent failed");
        if P::ENDS_ON_ERROR {
            note(message);
            Dispatched::Failed(ProcessError::new(error))
        } else {
            Dispatched::Done
        }
    }

    /// The caller, for a program's own hands: from here on it is not known who will answer.
    fn kept(self) -> Option<Caller> {
        // Its message has been taken, and is not withdrawn any more.
        self.into_caller().inspect(|caller| _ = caller.keep())
    }

    /// The right to answer later.
    pub fn into_reply<T: Send + 'static>(self) -> Reply<T> {
        Reply { caller: self.kept(), wrap: |value| Payload::new(Ok::<T, Infallible>(value)) }
    }

    /// The right to answer later, with a result.
    pub fn into_reply_result<T: Send + 'static, E: Send + 'static>(self) -> Reply<Result<T, E>> {
        Reply { caller: self.kept(), wrap: Payload::new }
    }
}

/// See [`Asked::watch`].
#[must_use = "it notes what happens while it is there"]
#[derive(Debug)]
pub struct Watch(Asked);

impl Watch {
    /// The method is over.
    pub fn over(self) {
        drop(self.0.into_caller());
    }
}

/// The right, and the duty, to answer a call later: keep it, hand it on, send it to any thread.
///
/// Dropping it unanswered fails the caller at once with [`CallError::Dropped`](crate::CallError::Dropped), or with
/// [`CallError::Died`](crate::CallError::Died) if the process ends with it in hand. A message that was sent, not
/// called, comes with a reply that goes nowhere.
#[must_use = "dropping a reply fails its caller"]
pub struct Reply<T> {
    caller: Option<Caller>,
    wrap: fn(T) -> Payload,
}

impl<T: Send + 'static> Reply<T> {
    /// Answers.
    pub fn send(self, value: T) {
        if let Some(caller) = self.caller {
            caller.answer((self.wrap)(value));
        }
    }

    /// Returns whether no caller waits for the answer: the message was sent, not called, or the caller has given up.
    pub fn is_abandoned(&self) -> bool {
        self.caller.as_ref().is_none_or(Caller::is_abandoned)
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("has_caller", &self.caller.is_some()).finish()
    }
}
