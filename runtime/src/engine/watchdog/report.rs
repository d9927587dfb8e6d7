//! Reports of steps that have run for too long.

use crate::observe::counters::Counter;
use crate::pid::Pid;
use crate::sync::{Mutex, ThreadHandle};
use crate::util::notifiers::Series;
use std::fmt;
use std::time::Duration;

/// A step that has exceeded the [limit](crate::Builder::stall_limit) while other processes waited for a worker, as
/// reported to the [hook](crate::Builder::on_stall) and the log: once when it is noticed, and once when it has ended.
///
/// By then the processes that waited behind it have been moved to where other threads can find them. If no worker was
/// idle, the worker of the stalled step has been given to another thread. The step itself continues: running code
/// cannot be stopped.
///
/// The remedy is [`ctx.blocking(…)`](crate::Context::blocking) around blocking code, or shorter steps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The process.
    pub pid: Pid,
    /// The name of its type.
    pub process: &'static str,
    /// The entry that it was spawned with.
    pub entry: &'static str,
    /// The type of the most recent message in this time slice: the one being handled, unless it was stashed. `None` if
    /// the step handles something else: an answer, a timer, a signal or the end.
    pub message: Option<&'static str>,
    /// How long the step has been watched. It began up to a quarter of the limit earlier. If no process waited when it
    /// began, and it was not the first step of its time slice, it may have begun even earlier: such a step is watched
    /// from the time when a process waits.
    pub lasted: Duration,
    /// Whether its worker was given to another thread.
    pub taken_over: bool,
    /// Whether the step has ended.
    pub is_over: bool,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, process, entry, message, lasted, .. } = self;
        let (is, did) = if self.is_over { ("was in a step", "") } else { ("is in a step", " so far") };
        write!(f, "{process} {pid} (entry `{entry}`) {is}")?;
        if let Some(message) = message {
            write!(f, " with a message of type `{message}`")?;
        }
        write!(f, " for {lasted:?}{did} while others waited")
    }
}

/// The handle of the watchdog's thread, and its counters.
#[derive(Default)]
pub(crate) struct WatchdogCounts {
    pub(crate) thread: Mutex<Option<ThreadHandle>>,
    /// The reports of stalls, for the log and the hook.
    pub(crate) reports: Series,
    pub(crate) ticks: Counter,
    pub(crate) stalls: Counter,
    pub(crate) taken_over: Counter,
    pub(crate) moved: Counter,
}
