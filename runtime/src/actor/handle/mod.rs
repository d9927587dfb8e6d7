//! Typed handles.
//!
//! * [`address`]: `Address` and `Recipient`; with the feature `futures`, `sink`: an address as a sink.

pub(crate) mod address;
#[cfg(feature = "futures")]
pub(crate) mod sink;
