//! The production modules of the engine that threads meet in.

pub(crate) mod host;
pub(crate) mod permits;
pub(crate) mod workers;
