//! What is told of a step that has run for too long.

use crate::observe::counters::Counter;
use crate::pid::Pid;
use crate::sync::{Mutex, SyncSender, ThreadHandle};
use std::fmt;
use std::time::Duration;

/// A step that has run for longer than the [limit](crate::Builder::stall_limit) while other processes waited for a
/// permit, as the [hook](crate::Builder::on_stall) and the log tell of it: once when it is noticed, and once when it
/// has ended.
///
/// What waited has been moved to where other threads find it by then, and if no permit was idle, the permit of the
/// stalled step has been given to another thread. The step itself goes on where it is: no code can be stopped from
/// outside.
///
/// The cure is `ctx.blocking(|| …)` around what blocks or computes for long, or steps that end sooner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The process.
    pub pid: Pid,
    /// The name of its type.
    pub process: &'static str,
    /// The entry that it was started at.
    pub entry: &'static str,
    /// The type of the message that the time slice was given last: that which is being handled, unless it has been set
    /// aside. `None` in a step that is about something else: an answer, a timer, a signal, the end.
    pub message: Option<&'static str>,
    /// For how long the step has run, as far as it was watched: it began up to a quarter of the limit earlier. Or more,
    /// if no thread waited for anything when it began, and it is not the first in its time slice: such a one is watched
    /// from when a thread waits.
    pub lasted: Duration,
    /// Whether its permit was given to another thread.
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

/// Tells users of one stall.
pub(crate) type Report = Box<dyn FnOnce() + Send>;

/// How the watchdog is reached, and its numbers.
#[derive(Default)]
pub(crate) struct WatchdogCounts {
    pub(crate) thread: Mutex<Option<ThreadHandle>>,
    /// Takes reports to the thread that tells users, once there has been one.
    pub(crate) reporter: Mutex<Option<SyncSender<Report>>>,
    pub(crate) ticks: Counter,
    pub(crate) stalls: Counter,
    pub(crate) taken_over: Counter,
    pub(crate) moved: Counter,
}
