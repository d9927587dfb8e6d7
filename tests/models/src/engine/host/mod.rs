//! The production module of the gate.

#[path = "../../../../../runtime/src/engine/host/gate.rs"]
pub(crate) mod gate;
