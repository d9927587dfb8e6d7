//! The reasons why processes end.

use crate::pid::Pid;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The reason why a process ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ExitReason {
    /// The process finished, or was asked to [`stop`](Pid::stop).
    Normal,
    /// The process's host was shut down, or the process was cancelled without a reason.
    Shutdown,
    /// The process was cancelled with this text.
    Cancelled(Arc<str>),
    /// The process was killed.
    Killed,
    /// A step failed.
    Error(Arc<dyn Error + Send + Sync>),
    /// The process panicked.
    Panic(Arc<Panic>),
    /// A process that this one was linked to failed.
    Linked {
        /// The process that failed.
        pid: Pid,
        /// Why the linked process ended.
        reason: Arc<ExitReason>,
    },
    /// The connection to the process's node was lost, or there is none: it is not known whether the process is alive.
    NodeLost,
    /// The process had already ended, and its reason was not kept.
    NoProcess,
}

const _: () = assert!(size_of::<ExitReason>() <= 32);

impl ExitReason {
    /// Returns whether the process ended regularly: it finished, was stopped, or was shut down.
    pub fn is_normal(&self) -> bool {
        match self {
            Self::Normal | Self::Shutdown => true,
            Self::Linked { reason, .. } => reason.is_normal(),
            _ => false,
        }
    }

    /// Creates the reason of a process that ends because a linked process, `pid`, failed. In a chain of links, each
    /// reason names the process that failed first.
    pub(crate) fn linked(pid: Pid, reason: Self) -> Self {
        match reason {
            linked @ Self::Linked { .. } => linked,
            reason => Self::Linked { pid, reason: Arc::new(reason) },
        }
    }

    /// Creates a reason from an error.
    pub fn error(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Error(Arc::from(error.into()))
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Normal => f.write_str("normal"),
            Self::Shutdown => f.write_str("shutdown"),
            Self::Cancelled(reason) => write!(f, "cancelled: {reason}"),
            Self::Killed => f.write_str("killed"),
            Self::Error(error) => write!(f, "error: {error}"),
            Self::Panic(panic) => write!(f, "{panic}"),
            Self::Linked { pid, reason } => write!(f, "linked process {pid} ended: {reason}"),
            Self::NodeLost => f.write_str("its node was lost"),
            Self::NoProcess => f.write_str("it had ended before"),
        }
    }
}

/// Reasons are equal if they have the same kind and the same text.
impl PartialEq for ExitReason {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Linked { pid, reason }, Self::Linked { pid: other_pid, reason: other_reason }) => {
                pid == other_pid && reason == other_reason
            }
            (Self::Cancelled(one), Self::Cancelled(other)) => one == other,
            (Self::Error(one), Self::Error(other)) => one.to_string() == other.to_string(),
            (Self::Panic(one), Self::Panic(other)) => one == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// Allows `cancel("…")`.
impl From<&str> for ExitReason {
    fn from(reason: &str) -> Self {
        Self::Cancelled(reason.into())
    }
}

impl From<String> for ExitReason {
    fn from(reason: String) -> Self {
        Self::Cancelled(reason.into())
    }
}

/// A panic that ended a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panic {
    /// The text of the panic.
    pub message: String,
    /// File, line and column of the panic; empty if another panic hook hides it.
    pub place: String,
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panic: {}", self.message)?;
        if !self.place.is_empty() {
            write!(f, " at {}", self.place)?;
        }
        Ok(())
    }
}
