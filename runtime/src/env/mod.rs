//! Access to the machine: time, randomness, and the identity of this run of the program.
//!
//! * [`clock`]: every reading of the time;
//! * [`ticks`]: a cheaper clock, for the recorder; `cycles`: the processor's counter (x86-64);
//! * [`chance`]: every random number, derived from a host's seed;
//! * [`program`]: the node ID in the PIDs of this run;
//! * [`world`]: state shared by all hosts of a program.

pub(crate) mod chance;
pub(crate) mod clock;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) mod cycles;
pub(crate) mod program;
pub(crate) mod ticks;
pub(crate) mod world;
