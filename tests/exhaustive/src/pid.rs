//! A stand-in for PIDs.

/// The index of a process.
pub(crate) type Pid = usize;
