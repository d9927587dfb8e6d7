//! The process that a thread runs, as seen from the code of that process.
//!
//! * [`local`]: a thread's own state; [`own`]: the process that it runs or starts, and access to its slot;
//! * [`values`]: values that spawned processes inherit; [`reactor_scope`]: entering the reactor.

pub(crate) mod local;
pub(crate) mod own;
pub(crate) mod reactor_scope;
pub(crate) mod values;
