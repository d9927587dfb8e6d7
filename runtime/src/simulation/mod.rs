//! Tests under chance and time: a program runs under many seeded schedules, and one that fails is replayed and made
//! small.
//!
//! Processes share nothing, so two runs of a program differ only in the order of its processes' turns, in time, and in
//! faults. A simulation decides all three, and nothing else is simulated: mailboxes, tokens, steps, timers, links,
//! supervision, pools and names are those of production. What threads can do to each other *within* a turn is the
//! models' to check (`tests/models`).
//!
//! From the bottom up: [`strategy`] and [`choices`] decide, [`faults`] and [`trace`] are what they decide upon and what
//! came of it, [`livelock`] bounds the timers that fire in vain, [`baton`] has the threads, [`run`] is one run,
//! [`invariants`] is what holds after each, [`campaign`] runs many and reports, [`shrink`] makes a failing schedule
//! small, [`trace_file`] writes it down and reads it, and [`sim`] is what a test holds.

pub(crate) mod baton;
pub(crate) mod campaign;
pub(crate) mod choices;
pub(crate) mod explore;
pub(crate) mod faults;
pub(crate) mod invariants;
pub(crate) mod livelock;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod shrink;
pub(crate) mod sim;
pub(crate) mod strategy;
pub(crate) mod trace;
pub(crate) mod trace_file;
