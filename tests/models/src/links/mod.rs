//! The production modules of what binds processes. What they say is heard by slots, and answered to whoever stands in.

#[path = "../../../../runtime/src/links/message.rs"]
pub(crate) mod message;
#[path = "../../../../runtime/src/links/protocol.rs"]
pub(crate) mod protocol;
#[allow(clippy::modulo_one, reason = "one cell is enough for a model")]
#[path = "../../../../runtime/src/links/registrations.rs"]
pub(crate) mod registrations;
