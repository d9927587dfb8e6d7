//! The production modules of the sleep protocol and the hand-off.

#[path = "../../../../../runtime/src/engine/permits/blocking_queue.rs"]
pub(crate) mod blocking_queue;
#[path = "../../../../../runtime/src/engine/permits/handoff.rs"]
pub(crate) mod handoff;
#[path = "../../../../../runtime/src/engine/permits/holders.rs"]
pub(crate) mod holders;
#[path = "../../../../../runtime/src/engine/permits/sleep.rs"]
pub(crate) mod sleep;
