//! The path to a peer: the destination of its frames, and whether this node may send any.

use crate::clock::Moment;
use crate::engine::Engine;
use crate::node::delivery::Arrivals;
use crate::node::inbox::Inbox;
use std::sync::{Arc, Mutex, PoisonError};

/// The driver's permission for senders to send, derived from the lease.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<Option<Moment>>);

impl Gate {
    /// Permits sending before this moment, or forbids it if there is none.
    pub(crate) fn set(&self, until: Option<Moment>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    pub(crate) fn may_send(&self, now: Moment) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| now < until)
    }
}

/// The means to send frames to a peer, and the components to notify.
#[derive(Clone)]
pub(crate) struct Port {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) clock: SharedClock,
    pub(crate) gate: Arc<Gate>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) arrivals: Arc<Arrivals>,
    /// The subjects of the lanes.
    pub(crate) subjects: [String; 2],
}

/// The node's clock.
pub(crate) type SharedClock = Arc<dyn Fn() -> Moment + Send + Sync>;
