//! How a process is spawned.
//!
//! * [`builder`]: a struct with `#[process]`; [`by_hand`]: a hand-written process;
//! * [`get_or_spawn`]: the process that already has the name.

pub(crate) mod builder;
pub(crate) mod by_hand;
pub(crate) mod get_or_spawn;
