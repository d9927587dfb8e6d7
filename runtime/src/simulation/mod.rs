//! Simulated tests: a program runs under many seeded schedules, and a failing one is replayed and shrunk.
//!
//! Processes share nothing, so two runs of a program differ only in the order of its processes' turns, in time, and in
//! faults. A simulation determines all three, and simulates nothing else: mailboxes, tokens, steps, timers, links,
//! supervision, pools and names are the production code. What threads can do to each other *within* a turn is checked
//! by the models (`tests/models`).
//!
//! From the bottom up: [`strategy`], [`choices`] and [`explore`] make the decisions; [`faults`] are part of what they
//! decide on; [`trace`] records the outcome; [`livelock`] bounds the timers that fire in vain; [`baton`] manages the
//! threads; [`run`] is one run, whose [`state`] the others change: [`next`] chooses what continues, [`hosts`] adds
//! nodes, [`simulator`] answers the runtime; [`invariants`] are checked after each run; [`campaign`] makes many runs,
//! and [`report`] describes the result; [`shrink`] makes a failing schedule smaller; [`trace_file`] writes it to a file
//! and reads it; [`sim`] is the API for the body of a test.

pub(crate) mod baton;
pub(crate) mod campaign;
pub(crate) mod choices;
pub(crate) mod explore;
pub(crate) mod faults;
mod hosts;
pub(crate) mod invariants;
pub(crate) mod livelock;
mod next;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod shrink;
pub(crate) mod sim;
mod simulator;
mod state;
pub(crate) mod strategy;
pub(crate) mod trace;
pub(crate) mod trace_file;
