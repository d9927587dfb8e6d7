//! Timers and clocks.
//!
//! * [`wheel`]: a hierarchical timer wheel, without a clock, lock or thread;
//! * [`timers`]: the wheels of a host, each under its own lock; [`next_due`]: the moment when the earliest timer is
//!   due;
//! * [`timekeeper`]: the thread for timers of code without a host; [`limits`]: the time limits of calls that such code
//!   makes;
//! * [`virtual_clock`]: the clock that tests advance.

pub(crate) mod limits;
pub(crate) mod next_due;
pub(crate) mod timekeeper;
pub(crate) mod timers;
pub(crate) mod virtual_clock;
pub(crate) mod wheel;
