//! A stand-in for the clock.

pub(crate) mod clock;
