//! Counters that are always on.
//!
//! * [`counters`]: single-writer counters, which cost a plain load and store.
//! * [`log_limit`]: how often an event is logged that may come in floods.
//! * `spans`: the spans of messages (feature `spans`).

pub(crate) mod counters;
pub(crate) mod log_limit;
#[cfg(feature = "spans")]
pub(crate) mod spans;
