//! Detection of steps that run for too long. The thread that acts on it is [`crate::engine::sched::watchdog`].
//!
//! * [`detector`]: the decisions, without a thread or a clock;
//! * [`report`]: what statistics and users are told.

pub(crate) mod detector;
pub(crate) mod report;
