//! The permission of this node to send, and its clock.

use crate::clock::Moment;
use std::sync::{Arc, Mutex, PoisonError};

/// The driver's permission for senders to send, derived from the lease.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<Option<Moment>>);

impl Gate {
    /// Permits sending before `until`, or forbids sending if that is `None`.
    pub(crate) fn set(&self, until: Option<Moment>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    pub(crate) fn may_send(&self, now: Moment) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| now < until)
    }
}

/// The node's clock.
pub(crate) type SharedClock = Arc<dyn Fn() -> Moment + Send + Sync>;
