//! Stand-ins for what knows nothing of processes.

#[path = "../../../../runtime/src/util/defer.rs"]
pub(crate) mod defer;
pub(crate) mod oneshot;
pub(crate) mod panics;
