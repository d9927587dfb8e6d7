//! Counters, log limits and spans.
//!
//! * [`counters`]: counters that are always on, and cost a plain load and store.
//! * [`log_limit`]: a rate limit for log events that may come in floods.
//! * [`spans`]: the spans of messages (feature `spans`), or stubs in their place.

pub(crate) mod counters;
pub(crate) mod log_limit;
#[cfg(not(feature = "spans"))]
pub(crate) mod no_spans;
#[cfg(feature = "spans")]
pub(crate) mod spans;

#[cfg(not(feature = "spans"))]
pub(crate) use no_spans as spans;
