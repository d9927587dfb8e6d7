//! Answering a call, at once or later.

use super::actor::{Declared, Dispatched};
use crate::call::caller::{self, Caller};
use crate::call::dead_letter::DeadLetterReason;
use crate::engine::context::thread::current_pid;
use crate::mailbox::payload::{HeldMessage, is_in_place};
use crate::process::handling;
use crate::process::mail::Mail;
use crate::{Package, Payload, ProcessError, actor::tasks::current};
use std::{convert::Infallible, mem::ManuallyDrop};

/// The caller, if any, of the message that is being handled. For generated code.
#[derive(Debug)]
pub struct Asked {
    caller: Option<Caller>,
    message: fn() -> &'static str,
}

/// Opens a message if it is an `M`; from here on the process runs under the caller's deadline. For generated code.
#[inline(always)]
pub fn open<P: Declared, M: Send + 'static>(mail: &mut Mail<'_>) -> Option<(M, Asked)> {
    let (message, caller) = mail.open::<M>()?;
    if let Some(reason) = caller.as_ref().and_then(|caller| refusal(caller, P::SKIPS_ABANDONED)) {
        discard(message, caller, reason);
        // The mail is opened and empty, so later checks find nothing in it.
        return None;
    }
    if caller.is_some() || current::has_deadline() {
        current::set_deadline(caller.as_ref().and_then(Caller::deadline));
    }
    Some((message, Asked { caller, message: std::any::type_name::<M> }))
}

/// Like [`open`], but leaves the message in its block, so that a large one is moved only once: into the parameters of
/// its method. For generated code.
#[inline(always)]
pub fn open_held<P: Declared, M: Send + 'static>(mail: &mut Mail<'_>) -> Option<(HeldMessage<M>, Asked)> {
    let (message, caller) = mail.open_held::<M>()?;
    if let Some(reason) = caller.as_ref().and_then(|caller| refusal(caller, P::SKIPS_ABANDONED)) {
        discard_payload(Payload::of(message), caller, reason);
        return None;
    }
    if caller.is_some() || current::has_deadline() {
        current::set_deadline(caller.as_ref().and_then(Caller::deadline));
    }
    Some((message, Asked { caller, message: std::any::type_name::<M> }))
}

/// Returns whether a message is held in a block and moved only once, out of that block. For generated code.
#[inline(always)]
pub const fn is_in_block<M>() -> bool {
    !is_in_place::<M>()
}

/// Calls `handle`, which handles an `M`. If `M` is large, the call has a stack frame of its own, because methods that
/// are inlined into one function share its frame. For generated code.
#[inline(always)]
pub fn apart<M, R>(handle: impl FnOnce() -> R) -> R {
    /// A guess: moving a message of this size costs more than a call.
    const LARGE: usize = 1024;
    // Without optimization, every message gets a frame of its own, because even unused branches take up space in a
    // shared frame.
    if cfg!(debug_assertions) || size_of::<M>() > LARGE { in_own_frame(handle) } else { handle() }
}

#[inline(never)]
fn in_own_frame<R>(handle: impl FnOnce() -> R) -> R {
    handle()
}

/// Claims the message of this caller. Returns the reason why it must not be handled, if there is one.
#[inline(always)]
fn refusal(caller: &Caller, skip_abandoned: bool) -> Option<DeadLetterReason> {
    if !caller.take() {
        return Some(DeadLetterReason::Withdrawn);
    }
    (skip_abandoned && caller.has_given_up()).then_some(DeadLetterReason::Expired)
}

#[cold]
fn discard<M: Send + 'static>(message: M, caller: Option<Caller>, reason: DeadLetterReason) {
    discard_payload(Payload::new(message), caller, reason);
}

#[cold]
fn discard_payload(message: Payload, caller: Option<Caller>, reason: DeadLetterReason) {
    if let Some(pid) = current_pid() {
        Package::from_parts(pid, message, caller).discard(reason);
    }
}

/// Not inlined, so that a message that was sent, not called, does not pay for it.
#[inline(never)]
fn answer<T: Send + 'static>(caller: Caller, value: T) {
    caller.answer_with(Ok::<T, Infallible>(value));
}

/// Notes the message for the report. Reached only if the process fails or is ended inside the method, before it
/// answers.
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
    /// Takes the caller out of the guard, because the method has returned or answers the call itself.
    #[inline(always)]
    fn into_caller(self) -> Option<Caller> {
        let mut this = ManuallyDrop::new(self);
        this.caller.take()
    }

    /// Returns a guard for a method that answers the call itself. The guard notes the message if the process fails in
    /// the method.
    pub fn watch(&self) -> Watch {
        Watch(Self { caller: None, message: self.message })
    }

    /// Answers with the return value.
    #[inline(always)]
    pub fn answer<T: Send + 'static>(self, value: T) -> Dispatched<'static> {
        if let Some(caller) = self.into_caller() {
            answer(caller, value);
        }
        Dispatched::Done
    }

    /// Answers with the return value. If the message was sent, not called, an error is logged instead; it also ends the
    /// process if the process type sets `ENDS_ON_ERROR`.
    pub fn answer_result<P: Declared, T: Send + 'static, E: Send + 'static>(
        self,
        result: Result<T, E>,
        describe: impl FnOnce(&E) -> String,
    ) -> Dispatched<'static> {
        let message = self.message;
        let mut caller = self.into_caller();
        // A caller that only waits for a sent message to be handled is notified by the drop.
        if let Some(caller) = caller.take_if(|caller| !caller.was_sent()) {
            caller.answer_with(result);
            return Dispatched::Done;
        }
        let Err(error) = result else { return Dispatched::Done };
        let error = describe(&error);
        let pid = current_pid();
        let pid = pid.map(tracing::field::display);
        crate::util::log::warn!(
            pid, process = P::NAME, message_type = message(), %error,
            "the method of a sent message returned an error"
        );
        if P::ENDS_ON_ERROR {
            note(message);
            Dispatched::Failed(ProcessError::new(error))
        } else {
            Dispatched::Done
        }
    }

    /// Hands the caller to user code: from here on, the runtime does not know which code will answer.
    fn kept(self) -> Option<Caller> {
        // The message has been taken and can no longer be withdrawn.
        self.into_caller().inspect(|caller| _ = caller.keep())
    }

    /// Converts this to the right to answer later.
    pub fn into_reply<T: Send + 'static>(self) -> Reply<T> {
        Reply { caller: self.kept(), wrap: |value| Payload::new(Ok::<T, Infallible>(value)) }
    }

    /// Converts this to the right to answer later, with a `Result`.
    pub fn into_reply_result<T: Send + 'static, E: Send + 'static>(self) -> Reply<Result<T, E>> {
        Reply { caller: self.kept(), wrap: Payload::new }
    }
}

/// The guard of [`Asked::watch`].
#[must_use = "a failure is noted only while the guard is held"]
#[derive(Debug)]
pub struct Watch(Asked);

impl Watch {
    /// Marks the method as returned.
    pub fn over(self) {
        drop(self.0.into_caller());
    }
}

/// The right and the duty to answer a call later: keep it, pass it on, or send it to any thread.
///
/// Dropping it unanswered fails the caller at once with [`CallError::Dropped`](crate::CallError::Dropped), or with
/// [`CallError::Died`](crate::CallError::Died) if the process ends while holding it. The reply to a message that was
/// sent, not called, is discarded.
///
/// A message method takes it as its last argument, and then returns nothing. `Reply<Result<T, E>>` answers like a
/// method that returns a `Result`.
///
/// ```
/// use postroom::prelude::*;
///
/// #[process]
/// #[derive(Default)]
/// struct Gate { waiting: Vec<Reply<&'static str>> }
///
/// #[process]
/// impl Gate {
///     #[entry]
///     fn serve(&mut self) {}
///     /// Answered when the gate opens.
///     #[message]
///     fn pass(&mut self, reply: Reply<&'static str>) { self.waiting.push(reply); }
///     #[message]
///     fn open(&mut self) { self.waiting.drain(..).for_each(|reply| reply.send("open")); }
/// }
///
/// let runtime = Runtime::new()?;
/// let gate = runtime.spawn(Gate::default()).serve()?;
/// let passed = std::thread::spawn(move || gate.pass().wait());
/// while !passed.is_finished() {
///     gate.open().wait()?;
/// }
/// assert_eq!(passed.join().unwrap(), Ok("open"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a reply fails its caller"]
pub struct Reply<T> {
    caller: Option<Caller>,
    wrap: fn(T) -> Payload,
}

impl<T: Send + 'static> Reply<T> {
    /// Answers the call. Never blocks; the answer to a caller that has stopped waiting is dropped.
    pub fn send(self, value: T) {
        if let Some(caller) = self.caller {
            caller.answer((self.wrap)(value));
        }
    }

    /// Returns true if no caller is waiting: the message was sent, not called, or the caller has given up.
    pub fn is_abandoned(&self) -> bool {
        self.caller.as_ref().is_none_or(Caller::is_abandoned)
    }
}

crate::util::debug::impl_debug!([T] Reply<T>, self => "Reply" { has_caller: self.caller.is_some() });
