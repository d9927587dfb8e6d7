//! The state of a lane that all threads see: its current connection, and the bounded queue of outgoing messages.

use async_nats::Client;
use bytes::Bytes;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, watch};

/// Maximum number of queued messages in each lane.
pub const MAX_QUEUED: usize = 1_024;

/// Maximum number of queued bytes in each lane. A single message may be longer.
pub const MAX_QUEUED_BYTES: usize = 16 << 20;

/// Time limit for the remaining work when the engine closes.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);

/// A connection of a lane.
#[derive(Clone)]
pub(crate) struct LaneConnection {
    /// The number of this connection in its lane, from 1.
    pub(crate) number: u64,
    pub(crate) client: Client,
    /// Announces the subjects on which the server has refused a publication.
    pub(crate) refusals: broadcast::Sender<String>,
}

/// A message that waits to be sent.
pub(crate) struct OutgoingMessage {
    pub(crate) subject: String,
    pub(crate) payload: Bytes,
}

/// The state of a lane that all threads see.
pub(crate) struct LaneState {
    pub(crate) connection: watch::Sender<Option<LaneConnection>>,
    pub(crate) queue: mpsc::Sender<OutgoingMessage>,
    pub(crate) queued_bytes: AtomicUsize,
}

impl LaneState {
    pub(crate) fn new(queue: mpsc::Sender<OutgoingMessage>) -> Self {
        Self { connection: watch::Sender::new(None), queue, queued_bytes: AtomicUsize::new(0) }
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connection.borrow().is_some()
    }

    pub(crate) fn connected(&self) -> Option<LaneConnection> {
        self.connection.borrow().clone()
    }

    /// Appends a message to the queue. Returns false if the queue is full.
    pub(crate) fn enqueue(&self, subject: &str, payload: Bytes) -> bool {
        let bytes = payload.len();
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = before == 0 || before.saturating_add(bytes) <= MAX_QUEUED_BYTES;
        let queued = has_room && self.queue.try_send(OutgoingMessage { subject: subject.into(), payload }).is_ok();
        if !queued {
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        queued
    }
}

/// Waits for a connection of the lane with a number greater than `last`. Returns `None` if the engine has ended.
pub(crate) async fn newer(
    connections: &mut watch::Receiver<Option<LaneConnection>>,
    last: u64,
) -> Option<LaneConnection> {
    let is_newer = |connected: &Option<LaneConnection>| connected.as_ref().is_some_and(|c| c.number > last);
    connections.wait_for(is_newer).await.ok()?.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_bounded_in_messages_and_in_bytes() {
        let (queue, mut messages) = mpsc::channel(2);
        let lane = LaneState::new(queue);
        assert!(lane.enqueue("a", vec![0; MAX_QUEUED_BYTES + 1].into()));
        assert!(!lane.enqueue("a", vec![0].into()), "the first takes all the bytes");
        let first = messages.try_recv().unwrap();
        lane.queued_bytes.fetch_sub(first.payload.len(), Ordering::Relaxed);
        assert!(lane.enqueue("a", Bytes::new()) && lane.enqueue("a", Bytes::new()));
        assert!(!lane.enqueue("a", Bytes::new()), "two messages are all");
        assert_eq!(lane.queued_bytes.load(Ordering::Relaxed), 0);
    }
}
