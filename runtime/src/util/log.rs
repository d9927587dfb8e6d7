//! Log events: macros for `tracing` events with the target `postroom`.
//!
//! A field has one meaning in all events: `pid`, `process` (the name of its type), `entry`, `label`, `message_type`,
//! `reason`, `panic`, `place`. None is named `message`: that is the field of an event's text, and a second one would
//! duplicate a key in JSON. A subscriber is user code, so each event is under a guard: its panic costs the event only.

macro_rules! log_event {
    ($level:ident, $($event:tt)*) => {
        $crate::util::panics::ignore($crate::util::panics::Site::Log, || {
            ::tracing::$level!(target: "postroom", $($event)*);
        })
    };
}

macro_rules! log_error {
    ($($event:tt)*) => { $crate::util::log::event!(error, $($event)*) };
}

macro_rules! log_warn {
    ($($event:tt)*) => { $crate::util::log::event!(warn, $($event)*) };
}

macro_rules! log_debug {
    ($($event:tt)*) => { $crate::util::log::event!(debug, $($event)*) };
}

pub(crate) use {log_debug as debug, log_error as error, log_event as event, log_warn as warn};
