//! The production modules of the next timer's time, and of limits without timers.

#[path = "../../../../runtime/src/time/limits.rs"]
pub(crate) mod limits;
#[path = "../../../../runtime/src/time/next_due.rs"]
pub(crate) mod next_due;
