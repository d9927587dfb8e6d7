//! Operations on a process through its PID.
//!
//! * [`addressed`]: targets of messages, and types of addresses;
//! * [`call`] and [`restart_wait`]: a message with an answer; [`replies`]: a message with many answers;
//! * [`send_modes`]: sends that wait or fail at a full mailbox; [`send_after`]: delayed and periodic sends;
//! * [`pid_ops`]: stopping, killing and joining; [`links`]: links and monitors.

pub(crate) mod addressed;
pub(crate) mod call;
pub(crate) mod describe;
pub(crate) mod links;
pub(crate) mod pid_ops;
pub(crate) mod replies;
pub(crate) mod restart_wait;
pub(crate) mod send_after;
pub(crate) mod send_modes;

pub(crate) use addressed::{Addressed, Link, ProtocolInfo, SendTo};
pub(crate) use pid_ops::Ended;
