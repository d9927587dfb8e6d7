//! Counters, log limits and spans.
//!
//! * [`counters`]: counters that are always on, and cost a plain load and store.
//! * [`log_limit`]: a rate limit for log events that may come in floods.
//! * `spans`: the spans of messages (feature `spans`).

pub(crate) mod counters;
pub(crate) mod log_limit;
#[cfg(feature = "spans")]
pub(crate) mod spans;
