//! A step that was timed.

use std::time::Duration;

/// A message that was timed while it was handled, as requested with [`Host::time_steps`](crate::Host::time_steps).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TimedStep {
    /// The name of the process's type.
    pub process: &'static str,
    /// The type of the message.
    pub message: &'static str,
    /// The time from the beginning of the process's time slice until its end; for an async method, until its first
    /// await.
    pub took: Duration,
}
