//! The process that a thread runs, as seen from the code of that process.
//!
//! * [`local`]: a thread's own state; [`starting`]: the process that it starts; [`reactor_scope`]: entering the
//!   reactor;
//! * [`own`]: access to the process's own slot; [`values`]: values that spawned processes inherit.

pub(crate) mod local;
pub(crate) mod own;
pub(crate) mod reactor_scope;
pub(crate) mod starting;
pub(crate) mod values;
