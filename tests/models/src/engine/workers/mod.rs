//! The production module that records which process a thread runs.

#[path = "../../../../../runtime/src/engine/workers/running.rs"]
pub(crate) mod running;
