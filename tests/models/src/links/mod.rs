//! The production modules of links and registrations. Slots receive the link messages, and stand-ins receive the
//! answers.

#[path = "../../../../runtime/src/links/message.rs"]
pub(crate) mod message;
#[path = "../../../../runtime/src/links/protocol.rs"]
pub(crate) mod protocol;
#[allow(clippy::modulo_one, reason = "one cell is enough for a model")]
#[path = "../../../../runtime/src/links/registrations.rs"]
pub(crate) mod registrations;
