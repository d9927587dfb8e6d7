//! What those meet who send or call: a message is refused, or a call gets no answer.

use crate::exit::ExitReason;
use crate::pid::Pid;
use std::convert::Infallible;
use std::fmt;

/// A message that was refused; it comes back whole.
#[derive(Clone, PartialEq)]
pub struct SendError<M> {
    /// The message.
    pub message: M,
    /// Why it was refused.
    pub reason: SendFailure,
}

/// Why a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum SendFailure {
    /// The process has ended, or its PID was never given out.
    #[error("{0} is no living process; find the present one by name, or monitor it to learn of its end")]
    Gone(Pid),
    /// The PID belongs to a node that this program has no way to.
    #[error("{0} lives on a node that this program is not connected to; connect the router to it")]
    UnknownNode(Pid),
    /// The PID belongs to a host that this program does not have.
    #[error("{0} lives on a host that this program does not have")]
    UnknownHost(Pid),
    /// The mailbox is full.
    #[error("the mailbox of {0} is full; try again later, or wait for room with `send_wait`")]
    Full(Pid),
    /// No process has the name that the message was for.
    #[error("no process has that name; register one, or spawn one with `.named(…).or_existing()`")]
    UnknownName,
    /// A timer was asked for, and there is no runtime to keep it.
    #[error("{0} is run by no scheduler, so nobody can keep the time for it; send at once instead")]
    NoTimer(Pid),
}

impl SendFailure {
    /// The same of the PID that the sender used, which pointed on to the one that refused. What is said of nodes and hosts
    /// stays: it is true of that one only.
    pub(crate) fn about(self, pid: Pid) -> Self {
        match self {
            Self::Gone(_) => Self::Gone(pid),
            Self::Full(_) => Self::Full(pid),
            other => other,
        }
    }
}

impl<M> fmt::Debug for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").field("message", &std::any::type_name::<M>()).field("reason", &self.reason).finish()
    }
}

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a message was refused: {}", self.reason)
    }
}

impl<M> std::error::Error for SendError<M> {}

/// Why a call got no answer. `E` is the error of the called method.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError<E = Infallible> {
    /// The method returned this error.
    #[error("{0}")]
    Failed(E),
    /// The process is dead, or died before it answered.
    #[error("the called process ended before it answered ({0})")]
    Gone(ExitReason),
    /// The deadline passed. The answer, should it come, is dropped.
    #[error(
        "no answer before the deadline; give the call more time with `.timeout(…)`, or find out what the process waits for"
    )]
    Timeout,
    /// The mailbox was full.
    #[error("the mailbox of the called process is full; try again later, or wait for room with `send_wait`")]
    Full,
    /// The call would have waited for itself. It was not delivered, and never will be.
    #[error("the call would wait for itself: {0}")]
    Cycle(Cycle),
    /// The process dropped the call without answering it.
    #[error("the called process dropped the call without an answer")]
    Dropped,
    /// The process has no method for a message of this type, or answers it with another type.
    #[error("the called process does not understand the message, or answers it with another type")]
    Unhandled,
    /// The runtime is shutting down.
    #[error("the runtime is shutting down")]
    Shutdown,
}

impl<E> CallError<E> {
    /// Whether the same call may well succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Timeout | Self::Full | Self::Dropped)
    }

    /// The error of the called method, if it was that.
    pub fn failed(self) -> Option<E> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }
}

impl CallError {
    /// The same, for a call that could have failed with an `E`.
    pub(crate) fn widen<E>(self) -> CallError<E> {
        match self {
            Self::Failed(never) => match never {},
            Self::Gone(reason) => CallError::Gone(reason),
            Self::Timeout => CallError::Timeout,
            Self::Full => CallError::Full,
            Self::Cycle(cycle) => CallError::Cycle(cycle),
            Self::Dropped => CallError::Dropped,
            Self::Unhandled => CallError::Unhandled,
            Self::Shutdown => CallError::Shutdown,
        }
    }
}

impl<M, E> From<SendError<M>> for CallError<E> {
    fn from(error: SendError<M>) -> Self {
        match error.reason {
            SendFailure::Full(_) => Self::Full,
            _ => Self::Gone(ExitReason::Gone),
        }
    }
}

/// A ring of calls in which everyone waits for the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// Who waits, and the method that it called; the last waits for the first.
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
