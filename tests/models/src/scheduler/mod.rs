//! The production modules of the sleep protocol, the hand-off, the gate and the next timer.

#[path = "../../../../runtime/src/scheduler/census.rs"]
pub(crate) mod census;
#[path = "../../../../runtime/src/scheduler/gate.rs"]
pub(crate) mod gate;
#[path = "../../../../runtime/src/scheduler/handoff.rs"]
pub(crate) mod handoff;
#[path = "../../../../runtime/src/scheduler/idle.rs"]
pub(crate) mod idle;
#[path = "../../../../runtime/src/scheduler/line.rs"]
pub(crate) mod line;
#[path = "../../../../runtime/src/scheduler/next.rs"]
pub(crate) mod next;
#[path = "../../../../runtime/src/scheduler/permits.rs"]
pub(crate) mod permits;
#[path = "../../../../runtime/src/scheduler/running.rs"]
pub(crate) mod running;
