//! The production module of the next timer's time.

#[path = "../../../../runtime/src/time/next_due.rs"]
pub(crate) mod next_due;
