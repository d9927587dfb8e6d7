//! Spawning, exiting and upgrading processes. The order of the steps is each one's contract.
//!
//! * [`spawn`], [`exit`], [`upgrade`].

pub(crate) mod exit;
pub(crate) mod spawn;
pub(crate) mod upgrade;
