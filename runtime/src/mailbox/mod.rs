//! Mailboxes: how messages wait.
//!
//! * [`payload`]: a value whose type is known at run time only;
//! * [`node`]: the 64-byte cell that a message travels in; [`node_pool`]: where nodes come from, without an allocation
//!   per message;
//! * [`lanes`]: the two queues of a process, and the token that says which thread may run it;
//! * [`bound`]: how many messages a mailbox may hold.
//!
//! Nothing here schedules: a lane that must wake its owner says so to its caller.

pub(crate) mod bound;
pub(crate) mod lanes;
pub(crate) mod node;
pub(crate) mod node_pool;
pub(crate) mod payload;
