//! What the runtime tells a live process, and a `#[signal]` method handles.

use crate::exit::ExitReason;
use crate::pid::Pid;

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
    /// Creates the answer to a monitor, for a process that is driven by hand.
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
                    Signal::$kind(signal) => Ok(signal),
                    other => Err(other),
                }
            }
        }
    )*};
}
signal_kind!(Cancel Down Exit);
