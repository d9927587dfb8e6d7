//! The production modules that record which process a thread runs, which thread drives a permit, and who is notified
//! for it.

#[path = "../../../../../runtime/src/engine/workers/running.rs"]
pub(crate) mod running;

#[path = "../../../../../runtime/src/engine/workers/driver_state.rs"]
pub(crate) mod driver_state;

#[path = "../../../../../runtime/src/engine/workers/help.rs"]
pub(crate) mod help;
