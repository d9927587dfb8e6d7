//! Exit reasons, and the signals of the runtime to a process.

use crate::pid::Pid;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The reason why a process ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ExitReason {
    /// It finished, or was asked to [`stop`](Pid::stop).
    Normal,
    /// Its host was shut down, or it was cancelled without a reason.
    Shutdown,
    /// It was cancelled with this text.
    Cancelled(Arc<str>),
    /// It was killed.
    Killed,
    /// A step failed.
    Error(Arc<dyn Error + Send + Sync>),
    /// It panicked.
    Panic(Arc<Panic>),
    /// A process that it was linked to failed.
    Linked {
        /// The process that failed.
        pid: Pid,
        /// Why that one ended.
        reason: Arc<ExitReason>,
    },
    /// The connection to its node was lost.
    NodeLost,
    /// It had ended before; its reason was not kept.
    NoProcess,
}

const _: () = assert!(size_of::<ExitReason>() <= 32);

impl ExitReason {
    /// Returns whether it is a regular end: finished, stopped, or shut down.
    pub fn is_normal(&self) -> bool {
        match self {
            Self::Normal | Self::Shutdown => true,
            Self::Linked { reason, .. } => reason.is_normal(),
            _ => false,
        }
    }

    /// The reason of a process that ends because a linked process, `pid`, failed. In a chain of links each names the
    /// process that failed first.
    pub(crate) fn linked(pid: Pid, reason: Self) -> Self {
        match reason {
            linked @ Self::Linked { .. } => linked,
            reason => Self::Linked { pid, reason: Arc::new(reason) },
        }
    }

    /// Makes a reason from an error.
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

/// Reasons are equal if they are of the same kind with the same text.
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

/// For `cancel("…")`.
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

/// A signal of the runtime to a process.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Signal {
    /// The process was asked to end, and may clean up first.
    Cancel(Cancel),
    /// A process that this one monitors has ended.
    Down(Down),
    /// A process that this one is linked to has failed.
    Exit(Exit),
}

/// The process was told to end, by [`Pid::cancel`] or because its host is shut down.
///
/// A process with a `#[signal]` method for this decides by itself; any other ends with this reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Cancel {
    /// The reason to end with.
    pub reason: ExitReason,
}

/// A monitored process has ended: its state has been dropped and its names are free.
///
/// Arrives after the last message of the process, once per monitor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Down {
    /// The process.
    pub pid: Pid,
    /// Why it ended.
    pub reason: ExitReason,
    /// The monitor that this answers.
    pub monitor: Monitor,
}

impl Down {
    /// Makes the answer to a monitor, for a process that is driven by hand.
    pub fn of(monitor: Monitor, reason: ExitReason) -> Self {
        Self { pid: monitor.pid, reason, monitor }
    }

    pub(crate) fn new(pid: Pid, reason: ExitReason, number: u64) -> Self {
        Self { pid, reason, monitor: Monitor { pid, number } }
    }
}

/// Identifies one monitor of one process by another: see [`Pid::monitor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Monitor {
    pid: Pid,
    number: u64,
}

impl Monitor {
    pub(crate) fn new(pid: Pid, number: u64) -> Self {
        Self { pid, number }
    }

    /// Returns the monitored process.
    pub fn pid(self) -> Pid {
        self.pid
    }

    pub(crate) fn number(self) -> u64 {
        self.number
    }
}

/// A linked process has failed, and this process traps exits. Arrives after the last message of that process.
#[derive(Clone, Debug, PartialEq)]
pub struct Exit {
    /// The process.
    pub pid: Pid,
    /// Why it ended.
    pub reason: ExitReason,
}

/// A type that a `#[signal]` method can handle.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a signal",
    note = "a `#[signal]` method takes a `Cancel`, a `Down` or an `Exit`"
)]
pub trait SignalKind: Sized {
    /// Returns this signal, if it is of this kind.
    ///
    /// # Errors
    /// The signal, if it is of another kind.
    fn from_signal(signal: Signal) -> Result<Self, Signal>;
}

macro_rules! signal_kind {
    ($($kind:ident)*) => {$(
        impl SignalKind for $kind {
            fn from_signal(signal: Signal) -> Result<Self, Signal> {
                match signal {
                    Signal::$kind(said) => Ok(said),
                    other => Err(other),
                }
            }
        }
    )*};
}
signal_kind!(Cancel Down Exit);
