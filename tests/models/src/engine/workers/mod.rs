//! The production modules that record which process a thread runs, and which thread drives a permit.

#[path = "../../../../../runtime/src/engine/workers/running.rs"]
pub(crate) mod running;

#[path = "../../../../../runtime/src/engine/workers/driver_state.rs"]
pub(crate) mod driver_state;
