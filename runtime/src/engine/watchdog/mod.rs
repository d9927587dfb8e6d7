//! The decisions of the watchdog: which steps run for too long, and how many threads may be awake. The thread that
//! carries them out is [`crate::engine::sched::watchdog`].
//!
//! * [`detector`]: stalled steps; [`awake_limit`]: how many threads may be awake; [`queue_waits`]: whether a process
//!   has waited. All three are pure logic, without a thread or a clock;
//! * [`report`]: reports of stalls for users, and counts for statistics.

pub(crate) mod awake_limit;
pub(crate) mod detector;
pub(crate) mod queue_waits;
pub(crate) mod report;
