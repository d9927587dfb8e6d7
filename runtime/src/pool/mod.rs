//! Pools: several processes of one type behind one PID.
//!
//! * [`plan`]: the decisions of a pool, as a state machine without a clock, threads or processes;
//! * [`route`]: the lane of a message; [`keys`]: user-defined keys as lanes;
//! * [`router`]: the sending side; [`completion`]: the completion of messages;
//! * [`process`]: the process that starts the members and handles their exits;
//! * [`builder`]: the API.

pub(crate) mod builder;
pub(crate) mod completion;
mod incoming;
pub(crate) mod keys;
pub(crate) mod plan;
pub(crate) mod process;
pub(crate) mod route;
pub(crate) mod router;
