//! How a process comes, goes, and changes its definition. The order of steps is the contract of each.
//!
//! * [`spawn`], [`exit`], [`upgrade`].

pub(crate) mod exit;
pub(crate) mod spawn;
pub(crate) mod upgrade;
