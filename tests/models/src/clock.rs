//! A stand-in for the clock: the models have no time.

/// Who keeps the time: nobody.
pub(crate) trait TimeKeeper {}
