//! A stand-in for the messages that come back to their senders with an error.

use crate::errors::SendFailure;

/// Nothing.
#[derive(Debug)]
#[allow(dead_code)]
pub(crate) struct Package;

/// One that comes back, with the reason.
#[derive(Debug)]
#[allow(dead_code)]
pub(crate) struct Undeliverable {
    pub(crate) package: Package,
    pub(crate) reason: SendFailure,
}
