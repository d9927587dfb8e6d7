//! What the watchdog decides: which steps run for too long, and how many threads are awake. The thread that acts on it
//! is [`crate::engine::sched::watchdog`].
//!
//! * [`detector`]: stalled steps; [`awake_limit`]: how many threads are awake; [`queue_waits`]: whether a process has
//!   waited; all without a thread or a clock;
//! * [`report`]: what statistics and users are told.

pub(crate) mod awake_limit;
pub(crate) mod detector;
pub(crate) mod queue_waits;
pub(crate) mod report;
