//! What others see of the [`monitor`](super::monitor).

use super::counters::Counter;
use crate::sync::{Mutex, ThreadHandle};

/// See the module.
#[derive(Default)]
pub(crate) struct Monitored {
    /// For waking it.
    pub(super) thread: Mutex<Option<ThreadHandle>>,
    pub(crate) ticks: Counter,
    pub(crate) stalls: Counter,
    pub(crate) taken_over: Counter,
    pub(crate) moved: Counter,
}
