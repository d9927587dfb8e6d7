//! The production mailbox over a stand-in pool.

#[allow(dead_code, unreachable_pub)]
#[path = "../../../../runtime/src/mailbox/bound.rs"]
pub(crate) mod bound;
#[path = "../../../../runtime/src/mailbox/lanes.rs"]
pub(crate) mod lanes;
#[path = "../../../../runtime/src/mailbox/node.rs"]
pub(crate) mod node;
pub(crate) mod node_pool;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../../runtime/src/mailbox/payload.rs"]
pub(crate) mod payload;
