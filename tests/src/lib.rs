//! Helpers of the tests: a watchdog, a process made of closures, latches, a command that a test answers by hand, and a
//! hook that records what it is told.
//!
//! No test decides by the clock. Where something must happen, the test waits for it under [`within`], which turns a
//! hang into a failure; where something must not happen, the test makes something happen that comes after it.

pub mod act;
pub mod bomb;
pub mod desk;
pub mod face;
pub mod hooks;
pub mod latch;
pub mod ledger;
pub mod logged;
pub mod partner;
pub mod watchdog;

pub use act::{Act, act, counts_to, idle_for_ever, listeners};
pub use desk::{Ask, Desk};
pub use hooks::Witness;
pub use latch::{Latch, eventually};
pub use logged::logged;
pub use watchdog::{soon, within};
