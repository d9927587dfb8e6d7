//! Pools: several processes of one kind behind one PID.
//!
//! * [`plan`]: who gets which message, and who comes and goes: a state machine without a clock, a thread or a process;
//! * [`route`]: which lane a message belongs to; [`keys`]: what lanes are told apart by, where users' keys do;
//! * [`router`]: where sends to the pool arrive; [`completion`]: how it hears that a message has been handled;
//! * [`process`]: the process that starts the members and hears of their ends;
//! * [`builder`]: what a user writes.

pub(crate) mod builder;
pub(crate) mod completion;
pub(crate) mod keys;
pub(crate) mod plan;
pub(crate) mod process;
pub(crate) mod route;
pub(crate) mod router;
