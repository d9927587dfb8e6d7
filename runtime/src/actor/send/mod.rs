//! What can be done with the PID of a process.
//!
//! * [`addressed`]: what can be sent to, and what an address can be of;
//! * [`call`] and [`restart_wait`]: a message with an answer; [`replies`]: one with many answers;
//! * [`send_modes`]: sends that wait or fail at a full mailbox; [`send_after`]: sends that happen later;
//! * [`pid_ops`]: stopping, killing and joining; [`links`]: links and monitors.

pub(crate) mod addressed;
pub(crate) mod call;
pub(crate) mod links;
pub(crate) mod pid_ops;
pub(crate) mod replies;
pub(crate) mod restart_wait;
pub(crate) mod send_after;
pub(crate) mod send_modes;
