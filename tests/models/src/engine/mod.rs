//! The production modules of the engine in which threads synchronize.

pub(crate) mod host;
pub(crate) mod permits;
pub(crate) mod workers;
