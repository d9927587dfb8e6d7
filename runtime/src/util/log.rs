//! Log events: macros for `tracing` events with the target `postroom`.
//!
//! A field has one meaning in all events: `pid`, `process` (the name of its type), `entry`, `label`, `message_type`,
//! `reason`, `panic`, `place`. None is named `message`: that is the field of an event's text, and a second one would
//! duplicate a key in JSON. A subscriber is user code: log only where its panic is contained.

macro_rules! log_error {
    ($($event:tt)*) => { ::tracing::error!(target: "postroom", $($event)*) };
}

macro_rules! log_warn {
    ($($event:tt)*) => { ::tracing::warn!(target: "postroom", $($event)*) };
}

macro_rules! log_debug {
    ($($event:tt)*) => { ::tracing::debug!(target: "postroom", $($event)*) };
}

pub(crate) use {log_debug as debug, log_error as error, log_warn as warn};
