//! The way to a peer: where its frames go, and whether this node may send any.

use crate::clock::Moment;
use crate::engine::Engine;
use crate::node::delivery::Arrivals;
use crate::node::inbox::Inbox;
use std::sync::{Arc, Mutex, PoisonError};

/// Whether this node may send, by its lease: what the driver knows, for those that send.
#[derive(Debug, Default)]
pub(crate) struct Gate(Mutex<Option<Moment>>);

impl Gate {
    /// The node may send before this moment; not at all, if there is none.
    pub(crate) fn set(&self, until: Option<Moment>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    pub(crate) fn may_send(&self, now: Moment) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| now < until)
    }
}

/// Where frames to a peer go, and who is told.
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
