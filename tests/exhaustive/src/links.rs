//! The production module.

#[allow(dead_code, unreachable_pub)]
#[path = "../../../runtime/src/links/protocol.rs"]
pub(crate) mod protocol;
