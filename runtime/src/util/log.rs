//! Log events: macros for `tracing` events with the target `postroom`.
//!
//! A field has one meaning in all events: `pid`, `process` (the name of its type), `entry`, `label`, `message_type`,
//! `reason`, `panic`, `place`. None is named `message`, because that is the field of an event's text: a second field of
//! that name would duplicate a key in JSON. A subscriber is user code, so each event is under a guard: a panic loses
//! only the event.

macro_rules! log_event {
    ($level:ident, $($event:tt)*) => {
        if $crate::util::log::is_on(::tracing::Level::$level) {
            $crate::util::panics::ignore($crate::util::panics::Site::Log, || {
                ::tracing::event!(target: "postroom", ::tracing::Level::$level, $($event)*);
            });
        }
    };
}

macro_rules! log_error {
    ($($event:tt)*) => { $crate::util::log::event!(ERROR, $($event)*) };
}

macro_rules! log_warn {
    ($($event:tt)*) => { $crate::util::log::event!(WARN, $($event)*) };
}

macro_rules! log_debug {
    ($($event:tt)*) => { $crate::util::log::event!(DEBUG, $($event)*) };
}

pub(crate) use {log_debug as debug, log_error as error, log_event as event, log_warn as warn};

use super::panics::Site;

/// Returns whether a subscriber may want events of this level: a load and a branch, so disabled events need no guard.
#[inline]
pub(crate) fn is_on(level: tracing::Level) -> bool {
    // The thread is checked even if no subscriber wants the event.
    Site::Log.check_thread();
    level <= tracing::level_filters::STATIC_MAX_LEVEL && level <= tracing::level_filters::LevelFilter::current()
}
