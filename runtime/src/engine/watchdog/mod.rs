//! Detection of steps that run for too long. The thread that acts on it is [`crate::engine::sched::watchdog`].
//!
//! * [`detector`]: the judgement, without a thread or a clock;
//! * [`counts`]: what statistics tell of it; [`report`]: what the user is told.

pub(crate) mod counts;
pub(crate) mod detector;
pub(crate) mod report;
