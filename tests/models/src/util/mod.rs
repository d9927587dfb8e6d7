//! Stand-ins for what knows nothing of processes.

pub(crate) mod oneshot;
pub(crate) mod panics;
