//! Spawning, exiting and upgrading processes. In each of these, the order of the steps is the contract.
//!
//! * [`spawn`], [`exit`], [`upgrade`].

pub(crate) mod exit;
pub(crate) mod spawn;
pub(crate) mod upgrade;
