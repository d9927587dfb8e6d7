//! A stand-in for taps, which no model has.

pub(crate) struct TapSink;

pub(crate) type ShowMessage = fn((), ()) -> Option<()>;
