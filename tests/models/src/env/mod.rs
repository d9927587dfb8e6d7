//! A stand-in for the clock.

pub(crate) mod clock;
#[path = "../../../../runtime/src/env/world.rs"]
pub(crate) mod world;
