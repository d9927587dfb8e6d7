//! Parsing of user code: signatures, options and markers.
//!
//! * [`marker`]: `#[entry]`, `#[message]` and `#[signal]`; [`options`]: the options in parentheses; [`inspect`]: those
//!   of fields;
//! * [`argument`], [`output`], [`generics`], [`naming`]: the parts of a signature, put together in [`method`];
//! * [`entry`], [`message`], [`signal`]: the specifics of each; [`process_impl`]: a whole `#[process] impl`.

pub(crate) mod argument;
pub(crate) mod entry;
pub(crate) mod generics;
pub(crate) mod inspect;
pub(crate) mod marker;
pub(crate) mod message;
pub(crate) mod message_options;
pub(crate) mod method;
pub(crate) mod naming;
pub(crate) mod options;
pub(crate) mod output;
pub(crate) mod process_impl;
pub(crate) mod signal;
