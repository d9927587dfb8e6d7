//! Mailboxes: the storage of queued messages.
//!
//! * [`payload`]: a value whose type is known only at run time;
//! * [`node`]: the 64-byte cell that a message travels in; [`node_pool`]: the source of nodes, without an allocation
//!   per message;
//! * [`lanes`]: the two queues of a process, and the token that determines which thread may run it;
//! * [`bound`]: the maximum number of messages in a mailbox.
//!
//! Nothing here schedules: if the owner of a lane must be woken, the operation reports that to its caller.

pub(crate) mod bound;
pub(crate) mod lanes;
pub(crate) mod node;
pub(crate) mod node_pool;
pub(crate) mod payload;
