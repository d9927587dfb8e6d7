//! How a message finds its mailbox from a PID.
//!
//! * [`router`]: the trait `Receiver`, and the routes to this program's hosts and to other nodes;
//! * [`alias`]: PIDs that stand for another process, such as a supervised child or the holder of a name;
//! * [`hosts`]: the hosts of this program by number.

pub(crate) mod alias;
pub(crate) mod hosts;
pub(crate) mod router;
