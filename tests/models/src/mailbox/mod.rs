//! The production mailbox over a stand-in pool.

#[path = "../../../../runtime/src/mailbox/lanes.rs"]
pub(crate) mod lanes;
#[path = "../../../../runtime/src/mailbox/node.rs"]
pub(crate) mod node;
pub(crate) mod pool;
