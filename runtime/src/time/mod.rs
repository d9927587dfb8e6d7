//! Timers.
//!
//! * [`wheel`]: a hierarchical timer wheel, without a clock, a lock or a thread;
//! * [`timers`]: the wheels of a host, each under its own lock; [`next_due`]: when the earliest timer of all is due;
//! * [`timekeeper`]: the thread that serves timers of code without a host;
//! * [`virtual_clock`]: the clock that tests move by hand.

pub(crate) mod next_due;
pub(crate) mod timekeeper;
pub(crate) mod timers;
pub(crate) mod virtual_clock;
pub(crate) mod wheel;
