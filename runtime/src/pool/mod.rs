//! Pools: several processes of one kind behind one PID.
//!
//! * [`plan`]: who gets which message, and who comes and goes: a state machine without a clock, a thread or a process;
//! * [`route`]: which lane a message belongs to;
//! * [`front`]: what those who send to the pool meet; [`hand`]: how it hears that a message has been handled;
//! * [`keeper`]: the process that starts the members and hears of their ends;
//! * [`face`]: what a user writes.

pub(crate) mod face;
mod front;
mod hand;
mod keeper;
pub(crate) mod plan;
mod route;
