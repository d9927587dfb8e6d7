//! The door to the machine: time, randomness, and the identity of this program run.
//!
//! * [`clock`]: every reading of the time;
//! * [`chance`]: every random number, drawn from a host's seed;
//! * [`program`]: the node ID that PIDs of this run carry;
//! * [`world`]: what all hosts of a program share.

pub(crate) mod chance;
pub(crate) mod clock;
pub(crate) mod program;
pub(crate) mod world;
