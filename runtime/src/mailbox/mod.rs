//! Mailboxes: how what is sent waits for whom it was sent to.
//!
//! * [`node`]: the 64-byte cell that one thing sent travels in;
//! * [`pool`]: where nodes come from and go back to, without an allocation per message;
//! * [`lanes`]: the two queues of one process, and the token that says who may run it.
//!
//! Nothing here knows of processes or scheduling: a lane that must wake its owner says so to its caller.

pub(crate) mod bound;
pub(crate) mod lanes;
pub(crate) mod node;
pub(crate) mod pool;
