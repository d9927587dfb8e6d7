//! What a time slice may spend, and what a process may owe of it.

/// How much one time slice may take and send.
pub(crate) const BUDGET: u32 = 128;
const _: () = assert!(BUDGET < 256, "a slot counts fewer than 256 messages a step");

/// The most time slices that a process can owe. More stands for a process that is held.
pub(crate) const MOST_DEBT: u32 = u8::MAX as u32 - 2;
