//! The runtime's protocols under many schedules: links, monitors, names, groups, calls, suspension, supervision and
//! timers.
//!
//! Each test is a small society whose members do to each other what the seed says. What must hold in the end is checked
//! here as far as a program can see it, and after each run by the simulation itself. `tests/faults` plants faults in
//! the runtime that these tests must find.

mod crossing;
mod pressure;
mod restarts;
mod society;
mod timers;
mod unasserted;
