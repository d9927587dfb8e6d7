//! What others see of the [`watchdog`](crate::engine::sched::watchdog).

use crate::observe::counters::Counter;
use crate::sync::{Mutex, SyncSender, ThreadHandle};

/// Tells users of one stall.
pub(crate) type Report = Box<dyn FnOnce() + Send>;

/// See the module.
#[derive(Default)]
pub(crate) struct WatchdogCounts {
    /// For waking it.
    pub(crate) thread: Mutex<Option<ThreadHandle>>,
    /// Takes reports to the thread that tells users, once there has been one.
    pub(crate) reporter: Mutex<Option<SyncSender<Report>>>,
    pub(crate) ticks: Counter,
    pub(crate) stalls: Counter,
    pub(crate) taken_over: Counter,
    pub(crate) moved: Counter,
}
