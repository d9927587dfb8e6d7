//! A stand-in for the clock: the models have no time.

/// Who keeps the time: nobody.
pub(crate) trait TimeKeeper {}

/// Names a timer that was set.
#[derive(Clone, Copy)]
pub(crate) struct TimerKey;
