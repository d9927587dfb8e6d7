//! Test helpers: a watchdog, a process made of closures, latches, a command that a test answers by hand, a hook that
//! records its calls, and random numbers.
//!
//! No test result depends on the clock. If an event must happen, the test waits for it under [`within`], which turns
//! a hang into a failure. If an event must not happen, the test waits for another event that would come after it.

pub mod act;
pub mod bomb;
pub mod face;
pub mod garbage;
pub mod hooks;
pub mod latch;
pub mod ledger;
pub mod logged;
pub mod partner;
pub mod random;
pub mod requests;
pub mod variable;
pub mod watchdog;

pub use act::{Act, act, counts_to, idle_for_ever, listeners};
pub use garbage::collect_garbage;
pub use hooks::Witness;
pub use latch::{Latch, eventually};
pub use logged::logged;
pub use random::Random;
pub use requests::{Ask, Requests};
pub use variable::variable;
pub use watchdog::{HOUR, rounds, soon, within};
