//! The production modules of dead letters and of call IDs, over stand-ins for callers and packages.

pub(crate) mod caller;
pub(crate) mod package;

#[path = "../../../../runtime/src/call/call_id.rs"]
pub(crate) mod call_id;
#[path = "../../../../runtime/src/call/dead_letter.rs"]
pub(crate) mod dead_letter;
