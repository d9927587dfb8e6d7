//! Signals: notifications from the runtime to a live process, which `#[signal]` methods handle.

use crate::exit::ExitReason;
use crate::pid::Pid;

/// A signal from the runtime to a process.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Signal {
    /// The process was asked to end. It may clean up first.
    Cancel(Cancel),
    /// A process that this one monitors has ended.
    Down(Down),
    /// A process that this one is linked to has failed.
    Exit(Exit),
}

/// The process was told to end, by [`Pid::cancel`] or because its host is shutting down.
///
/// A process with a `#[signal]` method for this signal decides for itself; any other process ends with this reason.
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
    /// The process that ended.
    pub pid: Pid,
    /// Why the process ended.
    pub reason: ExitReason,
    /// The monitor that reported the end.
    pub monitor: Monitor,
}

impl Down {
    /// Creates the report that a monitor sends, for a process that is driven by hand.
    pub fn of(monitor: Monitor, reason: ExitReason) -> Self {
        Self { pid: monitor.pid, reason, monitor }
    }
}

/// Identifies one monitor of one process on another: see [`Pid::monitor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Monitor {
    pid: Pid,
    /// Slot and generation of the process that monitors.
    watcher: u64,
    /// The number of the monitor among those of the watcher.
    number: u64,
}

impl Monitor {
    pub(crate) fn new(pid: Pid, watcher: u64, number: u64) -> Self {
        Self { pid, watcher, number }
    }

    pub(crate) fn watcher(self) -> u64 {
        self.watcher
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
    /// The process that failed.
    pub pid: Pid,
    /// Why the process ended.
    pub reason: ExitReason,
}

/// A type that a `#[signal]` method can handle.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a signal",
    note = "a `#[signal]` method takes a `Cancel`, a `Down` or an `Exit`"
)]
pub trait SignalKind: Sized {
    /// Returns the signal as this kind.
    ///
    /// # Errors
    /// Returns the signal unchanged, if it is of another kind.
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
