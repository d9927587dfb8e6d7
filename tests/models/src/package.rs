//! A stand-in for the messages that come back to their senders with an error.

/// Nothing.
#[derive(Debug)]
#[allow(dead_code)]
pub(crate) struct Package;
