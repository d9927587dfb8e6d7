//! The runtime's protocols under many schedules: links, monitors, names, groups, calls, suspension, supervision and
//! timers.
//!
//! In each test, a few processes act on each other as the seed decides. The final state is checked here as far as a
//! program can observe it, and after each run by the simulation itself. `tests/faults` plants faults in the runtime
//! that these tests must find.

mod crossing;
mod pressure;
mod restarts;
mod society;
mod timers;
mod unasserted;
