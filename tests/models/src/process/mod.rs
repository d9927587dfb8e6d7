//! A stand-in for the trait that users implement. The models drive slots without running user code.

#[path = "../../../../runtime/src/process/body.rs"]
pub(crate) mod body;
#[path = "../../../../runtime/src/process/control.rs"]
pub(crate) mod control;
#[path = "../../../../runtime/src/process/description.rs"]
pub(crate) mod description;
#[path = "../../../../runtime/src/process/guardian.rs"]
pub(crate) mod guardian;
#[path = "../../../../runtime/src/process/handover.rs"]
pub(crate) mod handover;
#[path = "../../../../runtime/src/process/kind.rs"]
pub(crate) mod kind;
pub(crate) mod tap;

/// The process in a slot.
pub(crate) trait Process: Send + 'static {}
