//! Errors of sends and calls.

use super::skew::Skew;
use super::starting::EntryError;
use super::words::{did_you_mean, list};
use crate::{exit::ExitReason, pid::Pid, util::debug::impl_debug};
use std::{convert::Infallible, fmt, sync::Arc};

/// Whether the message of a failed send or call was delivered, and so whether it may be repeated.
///
/// A message that was *not delivered* can be repeated without harm. If delivery is *unknown*, the message may have been
/// handled, in whole or in part, or may be handled later: repeat it only if it is *idempotent*, that is, if handling it
/// twice has the same effect as once, and undo nothing on the assumption that it was not handled. See the guide's
/// chapter *Delivery guarantees*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// No method has received the message, and none will.
    NotDelivered,
    /// The message may have been handled, in whole or in part, or may be handled later.
    Unknown,
    /// The method for the message has received it and returned.
    Handled,
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotDelivered => "not delivered",
            Self::Unknown => "possibly handled",
            Self::Handled => "handled",
        })
    }
}

/// A refused message, returned intact. It was not delivered.
#[derive(Clone, PartialEq)]
pub struct SendError<M> {
    /// The message.
    pub message: M,
    /// The reason.
    pub reason: SendFailure,
}

/// The reason why a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum SendFailure {
    /// The process has ended, or its PID was never given out.
    #[error("{0} is not a live process; find the current one by name, or monitor it to learn of its end")]
    Gone(Pid),
    /// The process is a child that has ended and is being restarted.
    #[error(
        "{0} is being restarted; try again later, wait for its successor with `send_wait` or `wait_for_restart`, or \
         have its supervisor keep messages meanwhile with `keep_messages`"
    )]
    Restarting(Pid),
    /// The runtime of the process is being shut down, or was shut down.
    #[error("{0} belongs to a runtime that has been shut down")]
    Shutdown(Pid),
    /// The PID belongs to a node that this program has no transport to.
    #[error("{0} lives on a node that this program is not connected to; connect the router to it")]
    UnknownNode(Pid),
    /// The process lives on another node, and the message cannot be sent between nodes.
    #[error(
        "the message cannot travel to the node of {0}: write `#[process(remote)]` before the `impl` with its method, \
         and export that type on both nodes in the same version"
    )]
    NotRemote(Pid),
    /// The process lives on another node, and the message is longer than the transport to that node accepts.
    #[error(
        "the message has {bytes} bytes on its way to another node, which takes {limit}; send it in parts, or a \
         reference to it"
    )]
    TooLong {
        /// Encoded length of the message, in bytes.
        bytes: usize,
        /// Maximum length that the transport accepts, in bytes.
        limit: usize,
    },
    /// The process lives on another node, and the message could not be encoded: its `Serialize` returned an error or
    /// panicked.
    #[error(
        "`{message}` cannot be written for another node: its `Serialize` returns an error or panics; the log has the \
         text; give it a form that serde can write, or keep it on its node"
    )]
    Unwritable {
        /// Name of the message between nodes.
        message: &'static str,
    },
    /// The process lives on another node. The build of that node does not have the message, or has it in another form.
    #[error("{0}")]
    OtherBuild(&'static Skew),
    /// The PID belongs to a host that this program does not have.
    #[error("{0} lives on a host that this program does not have")]
    UnknownHost(Pid),
    /// The mailbox, or the queue of a pool, is full. To wait for room, use
    /// [`Call::send_async`](crate::Call::send_async) in async code, and [`Call::send_wait`](crate::Call::send_wait)
    /// elsewhere.
    #[error(
        "the mailbox of {0} is full; try again later, or wait for room: with `.send_async().await` in async code, with \
         `.send_wait()` elsewhere"
    )]
    Full(Pid),
    /// No process has the name that the message was sent to.
    #[error("no process has that name; register one, or spawn one with `.named(…).or_existing()`")]
    UnknownName,
    /// A timer was requested, but there is no runtime to keep it.
    #[error("no scheduler runs {0}, so it has no timers; send the message at once instead")]
    NoTimer(Pid),
}

impl SendFailure {
    /// Returns [`Delivery::NotDelivered`]: a refused message has not been delivered.
    pub fn delivery(&self) -> Delivery {
        Delivery::NotDelivered
    }

    /// Returns whether the same message may be accepted later. True for a full mailbox and for a child that is being
    /// restarted.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Restarting(_))
    }

    /// Replaces the PID with that of the alias that the sender used. Failures that concern a node or host keep the PID
    /// of the target.
    pub(crate) fn about(self, pid: Pid) -> Self {
        match self {
            Self::Gone(_) => Self::Gone(pid),
            Self::Restarting(_) => Self::Restarting(pid),
            Self::Shutdown(_) => Self::Shutdown(pid),
            Self::Full(_) => Self::Full(pid),
            other => other,
        }
    }
}

impl<M> SendError<M> {
    /// Returns [`Delivery::NotDelivered`]: a refused message has not been delivered.
    pub fn delivery(&self) -> Delivery {
        self.reason.delivery()
    }

    /// Returns whether the same message may be accepted later. True for a full mailbox and for a child that is being
    /// restarted.
    pub fn is_retryable(&self) -> bool {
        self.reason.is_retryable()
    }
}

impl_debug!([M] SendError<M>, self => "SendError" { message: std::any::type_name::<M>(), reason: self.reason });

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a message was refused: {}", self.reason)
    }
}

impl<M> std::error::Error for SendError<M> {}

/// The reason why a message could not be sent by the name of its method. It was not delivered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The type of the process is not registered with this host.
    #[error(
        "{pid} is a `{process}`, which is not registered here, so its messages cannot be sent by name; register it \
         with `runtime.register_type::<{process}>()`, or send the message as a value with `send`"
    )]
    Unregistered {
        /// The process.
        pid: Pid,
        /// The type of the process.
        process: &'static str,
    },
    /// The type of the process is not known here, so the message cannot be looked up.
    #[error(
        "the type of {0} is unknown here: it is a mailbox, a process on another node, or an alias that has had no \
         process yet; send the message as a value with `send`"
    )]
    Untyped(Pid),
    /// The process has no such message.
    #[error("`{process}` has no message `{message}`; it has {}{}", list(has), did_you_mean(message, has))]
    Unknown {
        /// The type of the process.
        process: &'static str,
        /// The requested message.
        message: String,
        /// Known messages: the names of the process's methods, then those of the protocols that it implements.
        has: Vec<String>,
    },
    /// The inputs do not fit the message.
    #[error(transparent)]
    Inputs(Box<EntryError>),
    /// The inputs are not valid JSON, or are neither an array nor an object.
    #[error("the inputs must be a JSON array, or a JSON object with a value for each input's name: {0}")]
    Json(String),
    /// The message was refused.
    #[error("the message was refused: {0}")]
    Refused(SendFailure),
}

impl MessageError {
    /// Returns [`Delivery::NotDelivered`]: a refused message has not been delivered.
    pub fn delivery(&self) -> Delivery {
        Delivery::NotDelivered
    }

    /// Returns whether the same message may be accepted later. True for a full mailbox and for a child that is being
    /// restarted.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Refused(reason) if reason.is_retryable())
    }
}

impl From<EntryError> for MessageError {
    fn from(error: EntryError) -> Self {
        Self::Inputs(Box::new(error))
    }
}

/// The reason why a call got no answer. `E` is the error of the called method.
///
/// [`delivery`](Self::delivery) reports for each error whether the message may have been handled.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError<E = Infallible> {
    /// The method returned this error. The message was handled.
    #[error("{0}")]
    Failed(E),
    /// The process had ended before the call, or ended before it took the message. With
    /// [`NodeLost`](ExitReason::NodeLost), its node cannot be reached, and the process may still be alive there. The
    /// message was not delivered.
    #[error("the called process did not take the message, which was not delivered ({0})")]
    Gone(ExitReason),
    /// The process ended while it had the call: in its method, or while it held the [`Reply`](crate::Reply). The
    /// message may have been handled.
    #[error("the called process ended before it answered ({0}); the message may have been handled")]
    Died(ExitReason),
    /// The deadline passed. The message may have been handled, or may be handled later; a late answer is dropped.
    #[error(
        "no answer before the deadline; give the call more time with `.timeout(…)`, or find out what the process \
         waits for; with a manual clock, send the message, advance the clock, and receive with a probe"
    )]
    Timeout,
    /// The mailbox was full. The message was not delivered.
    #[error(
        "the mailbox of the called process is full; repeat the call later, or, if you need no answer, wait for room: \
         with `.send_async().await` in async code, with `.send_wait()` elsewhere"
    )]
    Full,
    /// The called process is a child that has ended and is being restarted. The message was not delivered.
    /// [`Call::wait_for_restart`](crate::Call::wait_for_restart) waits for its successor.
    #[error(
        "the called process is being restarted; try again later, wait for its successor with `wait_for_restart`, or \
         have its supervisor keep messages meanwhile with `keep_messages`"
    )]
    Restarting,
    /// The call would have waited for itself. The message was not delivered: if it had been sent already, it was
    /// withdrawn.
    #[error("the call would wait for itself: {0}")]
    Cycle(Cycle),
    /// The process took the message and dropped the call without answering it. The message may have been handled.
    #[error("the called process dropped the call without an answer")]
    Dropped,
    /// The process has no method for a message of this type. The message was not delivered.
    #[error(
        "the called process has no method for the message; check the type of the process and of the message, and in a \
         keyed pool add a key for it"
    )]
    Unhandled,
    /// The process answered with a value of another type. The message was handled.
    #[error(
        "the call expects a `{expected}`, and the process answered with a `{found}`; make the types of the `Recipient` \
         and of the answer the same"
    )]
    Mismatch {
        /// Type that the call expects, as a `Result` of answer and error.
        expected: &'static str,
        /// Type of the answer, in the same form.
        found: &'static str,
    },
    /// No process has the name to which the address refers. The message was not delivered.
    #[error("no process has the name that was called; register one, or spawn one with `.named(…).or_existing()`")]
    UnknownName,
    /// The runtime of the process is being shut down, or was shut down. The message was not delivered.
    #[error("the runtime of the called process has been shut down")]
    Shutdown,
    /// The process lives on another node, and the message cannot be sent between nodes. The message was not delivered.
    #[error(
        "the call cannot travel to the node of the called process: write `#[process(remote)]` before the `impl` with \
         its method, and export that type on both nodes in the same version"
    )]
    NotRemote,
    /// The process lives on another node, and the message is longer than the transport to that node accepts. The
    /// message was not delivered.
    #[error(
        "the message has {bytes} bytes on its way to another node, which takes {limit}; send it in parts, or a \
         reference to it"
    )]
    TooLong {
        /// Encoded length of the message, in bytes.
        bytes: usize,
        /// Maximum length that the transport accepts, in bytes.
        limit: usize,
    },
    /// The process lives on another node, and the message could not be encoded: see [`SendFailure::Unwritable`]. The
    /// message was not delivered.
    #[error(
        "`{message}` cannot be written for another node: its `Serialize` returns an error or panics; the log has the \
         text; give it a form that serde can write, or keep it on its node"
    )]
    Unwritable {
        /// Name of the message between nodes.
        message: &'static str,
    },
    /// The process lives on another node, which could not decode the message: it nests too deeply, or its `Deserialize`
    /// returned an error or panicked. The field gives the reason. The message was not delivered.
    #[error("the node of the called process cannot read the message: {0}")]
    Unreadable(Arc<str>),
    /// The process lives on another node, and its answer is longer than the transport accepts. The message was handled.
    #[error(
        "the message was handled, and its answer has {bytes} bytes on its way from another node, which sends {limit} \
         at most; answer in parts, or with a reference to the value"
    )]
    AnswerTooLong {
        /// Encoded length of the answer, in bytes.
        bytes: usize,
        /// Maximum length that the transport accepts, in bytes.
        limit: usize,
    },
    /// The process lives on another node, and its answer could not be encoded on that node or decoded on this one. The
    /// field gives the reason. The message was handled.
    #[error("the message was handled, and its answer was lost: {0}")]
    AnswerLost(Arc<str>),
    /// The process lives on another node. The build of that node does not have the message, or has it in another form.
    /// The message was not delivered.
    #[error("{0}")]
    OtherBuild(&'static Skew),
}

impl<E> CallError<E> {
    /// Returns whether the message may have been handled.
    pub fn delivery(&self) -> Delivery {
        match self {
            Self::Failed(_) | Self::Mismatch { .. } | Self::AnswerTooLong { .. } | Self::AnswerLost(_) => {
                Delivery::Handled
            }
            Self::Died(_) | Self::Timeout | Self::Dropped => Delivery::Unknown,
            Self::Gone(_)
            | Self::Full
            | Self::Restarting
            | Self::Cycle(_)
            | Self::Unhandled
            | Self::UnknownName
            | Self::Shutdown
            | Self::NotRemote
            | Self::TooLong { .. }
            | Self::Unwritable { .. }
            | Self::Unreadable(_)
            | Self::OtherBuild(_) => Delivery::NotDelivered,
        }
    }

    /// Returns whether the call may be repeated unchanged: it may succeed later, and since it was not delivered, it
    /// cannot take effect twice. False for [`Timeout`](Self::Timeout), [`Died`](Self::Died) and
    /// [`Dropped`](Self::Dropped): repeat those only if their message is idempotent.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Full | Self::Restarting)
    }

    /// Returns the error of the called method, if there is one.
    pub fn failed(self) -> Option<E> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Converts the error of the called method, if there is one; any other error is returned unchanged.
    pub fn map_failed<F>(self, convert: impl FnOnce(E) -> F) -> CallError<F> {
        match self {
            Self::Failed(error) => CallError::Failed(convert(error)),
            Self::Gone(reason) => CallError::Gone(reason),
            Self::Died(reason) => CallError::Died(reason),
            Self::Timeout => CallError::Timeout,
            Self::Full => CallError::Full,
            Self::Restarting => CallError::Restarting,
            Self::Cycle(cycle) => CallError::Cycle(cycle),
            Self::Dropped => CallError::Dropped,
            Self::Unhandled => CallError::Unhandled,
            Self::Mismatch { expected, found } => CallError::Mismatch { expected, found },
            Self::UnknownName => CallError::UnknownName,
            Self::Shutdown => CallError::Shutdown,
            Self::NotRemote => CallError::NotRemote,
            Self::TooLong { bytes, limit } => CallError::TooLong { bytes, limit },
            Self::Unwritable { message } => CallError::Unwritable { message },
            Self::Unreadable(reason) => CallError::Unreadable(reason),
            Self::AnswerTooLong { bytes, limit } => CallError::AnswerTooLong { bytes, limit },
            Self::AnswerLost(reason) => CallError::AnswerLost(reason),
            Self::OtherBuild(skew) => CallError::OtherBuild(skew),
        }
    }
}

impl CallError {
    /// Converts the error of a call to a method that cannot fail into the error of a call to a method that can:
    /// `counter.count().await.map_err(CallError::widen)?`.
    pub fn widen<E>(self) -> CallError<E> {
        self.map_failed(|never| match never {})
    }
}

impl<E> From<SendFailure> for CallError<E> {
    fn from(reason: SendFailure) -> Self {
        match reason {
            SendFailure::Full(_) => Self::Full,
            SendFailure::Restarting(_) => Self::Restarting,
            SendFailure::Shutdown(_) => Self::Shutdown,
            SendFailure::UnknownName => Self::UnknownName,
            SendFailure::NotRemote(_) => Self::NotRemote,
            SendFailure::TooLong { bytes, limit } => Self::TooLong { bytes, limit },
            SendFailure::Unwritable { message } => Self::Unwritable { message },
            SendFailure::OtherBuild(skew) => Self::OtherBuild(skew),
            // The process may still be alive and answer others. If the caller started a replacement, there would be two
            // processes.
            SendFailure::UnknownNode(_) => Self::Gone(ExitReason::NodeLost),
            SendFailure::Gone(_) | SendFailure::UnknownHost(_) | SendFailure::NoTimer(_) => {
                Self::Gone(ExitReason::NoProcess)
            }
        }
    }
}

impl<M, E> From<SendError<M>> for CallError<E> {
    fn from(error: SendError<M>) -> Self {
        error.reason.into()
    }
}

/// A cycle of calls in which each process waits for the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The waiting processes, each with the method that it called; the last process waits for the first.
    pub calls: Vec<(Pid, &'static str)>,
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (pid, method) in &self.calls {
            write!(f, "{pid} calls {method}, ")?;
        }
        f.write_str("which waits for the first")
    }
}
