//! The production modules of the sleep protocol and the gate.

#[path = "../../../../runtime/src/scheduler/gate.rs"]
pub(crate) mod gate;
#[path = "../../../../runtime/src/scheduler/idle.rs"]
pub(crate) mod idle;
