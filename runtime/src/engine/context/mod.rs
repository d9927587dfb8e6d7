//! What a thread knows of the process that it runs, from wherever that process calls.
//!
//! * [`local`]: a thread's own state; [`starting`]: the process that it starts; [`reactor_scope`]: entering the
//!   reactor;
//! * [`own`]: access to the process's own slot; [`values`]: values that are inherited by spawned processes.

pub(crate) mod local;
pub(crate) mod own;
pub(crate) mod reactor_scope;
pub(crate) mod starting;
pub(crate) mod values;
