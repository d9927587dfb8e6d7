//! The time slice of a process: from taking its token until the process idles, is queued again, or exits.
//!
//! * [`run`]: a time slice, from its beginning to its end; [`step`]: one of its steps; [`after`]: the actions after a
//!   step, which [`outcome`] decides as a pure function; [`scratch`]: the storage of a thread for all of them;
//! * [`following`]: time slices that follow each other directly, most with messages only; [`answered`]: those of
//!   processes that were answered by this thread;
//! * [`recorded`], [`timed`], `simulated` (feature `test`): time slices of a recorded host, of one message whose time
//!   is measured, and of a simulation.

mod after;
pub(crate) mod answered;
pub(crate) mod following;
mod outcome;
pub(crate) mod recorded;
pub(crate) mod run;
pub(crate) mod scratch;
#[cfg(feature = "test")]
pub(crate) mod simulated;
mod step;
pub(crate) mod timed;
