//! What the runtime logs: events of `tracing` whose target is `postroom`, wherever in the runtime they come from.
//!
//! A field means the same in every event: `pid`, `process` (the name of its type), `entry`, `label`, `message_type`,
//! `reason`, `panic`, `place`. None is named `message`: that is the field of an event's text, and a second one would
//! make JSON with a key twice. A subscriber is code of the user's: what is written here must stand where its panic is
//! contained.

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
