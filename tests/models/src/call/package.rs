//! A stand-in for messages that are returned to their senders with an error.

use crate::errors::SendFailure;

/// A message. Empty, since no model returns one.
#[derive(Debug)]
#[allow(dead_code)]
pub(crate) struct Package;

/// A message that is returned, with the reason.
#[derive(Debug)]
#[allow(dead_code)]
pub(crate) struct Undeliverable {
    pub(crate) package: Package,
    pub(crate) reason: SendFailure,
}
