//! Spawning processes.
//!
//! * [`builder`]: a struct with `#[process]`; [`by_hand`]: a hand-written process;
//! * [`get_or_spawn`]: returning the holder of a name.

pub(crate) mod builder;
pub(crate) mod by_hand;
pub(crate) mod get_or_spawn;

pub(crate) use by_hand::SpawnProcess;
