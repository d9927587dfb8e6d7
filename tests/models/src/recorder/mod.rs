//! The production ring, and a stand-in for the recorder: no slot of a model is recorded.

#[path = "../../../../runtime/src/recorder/kind.rs"]
pub(crate) mod kind;
#[path = "../../../../runtime/src/recorder/ring.rs"]
pub(crate) mod ring;
pub(crate) mod session;
