//! A stand-in for taps, which do not exist in a model.

pub(crate) struct TapSink;

pub(crate) type ShowMessage = fn((), ()) -> Option<()>;
