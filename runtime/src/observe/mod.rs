//! Counters that are always on.
//!
//! * [`counters`]: single-writer counters, which cost a plain load and store.

pub(crate) mod counters;
