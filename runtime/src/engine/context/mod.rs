//! The process that a thread runs, as seen from the code of that process.
//!
//! * [`thread`]: a thread's own state; [`keep`]: where it puts the tokens of processes; [`dispatch`]: services of its
//!   host;
//! * [`own`]: the process that it runs or starts, and access to its slot;
//! * [`values`]: values that spawned processes inherit; [`reactor_scope`]: entering the reactor;
//! * [`vacant`]: the vacant slots that a thread keeps for its next processes;
//! * `spans`: how the spans of messages describe processes (feature `spans`).

pub(crate) mod dispatch;
pub(crate) mod keep;
pub(crate) mod own;
pub(crate) mod reactor_scope;
#[cfg(feature = "spans")]
pub(crate) mod spans;
pub(crate) mod thread;
pub(crate) mod vacant;
pub(crate) mod values;
