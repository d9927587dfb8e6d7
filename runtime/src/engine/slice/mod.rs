//! The time slice of a process: from taking its token until the process idles, is queued again, or exits.
//!
//! * [`step`]: the steps of a time slice, and what is done after each; [`outcome`]: what follows a step, as a pure
//!   function;
//! * [`following`]: time slices that follow each other directly, most with messages only; [`answered`]: those of
//!   processes that were answered by this thread;
//! * [`recorded`], [`timed`], `simulated` (feature `test`): time slices of a recorded host, of one message whose time
//!   is measured, and of a simulation.

pub(crate) mod answered;
pub(crate) mod following;
mod outcome;
pub(crate) mod recorded;
#[cfg(feature = "test")]
pub(crate) mod simulated;
pub(crate) mod step;
pub(crate) mod timed;
