//! A step whose time was taken.

use std::time::Duration;

/// The handling of one message, timed because someone asked for it with [`Host::time_steps`](crate::Host::time_steps).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TimedStep {
    /// The name of the process's type.
    pub process: &'static str,
    /// The type of the message.
    pub message: &'static str,
    /// The time from taking up the process until it was parked again: of an async method, until it first awaits.
    pub took: Duration,
}
