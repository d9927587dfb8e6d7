//! Which threads may run steps. A host has a fixed number of permits; a thread needs one to run a step.
//!
//! * [`holders`]: which thread holds which permit; [`blocking_queue`]: async steps that wait for a thread to block
//!   with;
//! * [`sleep`]: which threads sleep or search, and which of them is woken;
//! * [`handoff`]: passing a permit from a thread that blocks to another one;
//! * [`thread_counts`]: a snapshot of what the threads do.

pub(crate) mod blocking_queue;
pub(crate) mod handoff;
pub(crate) mod holders;
pub(crate) mod sleep;
pub(crate) mod thread_counts;
