//! What is counted of steps that do not end.

use super::counters::Counter;

/// What others see of it.
#[derive(Default)]
pub(crate) struct Monitor {
    pub(crate) ticks: Counter,
    pub(crate) stalls: Counter,
    pub(crate) taken_over: Counter,
    pub(crate) moved: Counter,
}
