//! The run loop: how a thread finds a process, runs a [time slice](super::slice) of it, and parks.
//!
//! * [`run_loop`]: run, park or exit;
//! * [`find`]: where the next process comes from, in order;
//! * [`recorded`]: the run loop while the host is recorded;
//! * [`slot_owner`]: the host as the owner of slots: scheduling, bounds, timers, dead letters;
//! * [`driving`]: sleeping threads as drivers of timers and the reactor; [`spare`]: threads without a permit;
//! * [`launch`]: starting and ending threads; [`watchdog`]: the thread that looks for long steps; [`awake`]: its limit
//!   of awake threads.

pub(crate) mod awake;
pub(crate) mod driven;
pub(crate) mod driving;
pub(crate) mod find;
pub(crate) mod launch;
pub(crate) mod recorded;
pub(crate) mod run_loop;
#[cfg(feature = "test")]
pub(crate) mod simulated;
pub(crate) mod slot_owner;
pub(crate) mod spare;
pub(crate) mod watchdog;
