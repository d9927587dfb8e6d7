//! Detection of steps that run for too long. The thread that acts on it is [`crate::engine::sched::watchdog`].
//!
//! * [`detector`]: the judgement, without a thread or a clock;
//! * [`report`]: what statistics and the user are told of it.

pub(crate) mod detector;
pub(crate) mod report;
