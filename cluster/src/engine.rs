//! What a cluster requires of a message broker.
//!
//! An [`Engine`] carries messages between nodes and keeps a small store that all nodes agree on. Its interface is made
//! of callbacks: no method waits, so an engine blocks no thread of the caller, fits any event loop, and runs under a
//! simulator. NATS is one engine.
//!
//! # Contract
//! Other modules refer to these points by number.
//!
//! 1. **No call blocks**, and no callback runs inside the call that registered it: a caller may hold a lock.
//! 2. **Messages** are delivered at most once, and in order from one publisher's lane to one subscription. They may be
//!    lost without notice, in particular before a subscription has reached the broker; [`Engine::publish`] reports only
//!    errors that the engine detects at once.
//! 3. **Lanes** are independent connections: messages queued in [`Lane::Data`] never delay [`Lane::Control`]. Messages
//!    of different lanes are not ordered. Lanes are not namespaces: a subscription receives what is published in either
//!    lane.
//! 4. **Store**: each write has a revision that is larger than all earlier ones in its bucket, **even if the store was
//!    lost** in between, or replaced by an older copy, provided that an engine which has seen a later revision is still
//!    open. Only in [`Bucket::Leases`] may a revision of an older copy occur twice. [`Engine::create`],
//!    [`Engine::update`] and [`Engine::delete`] compare and set: of several requests that expect the same revision, one
//!    succeeds. [`Engine::get`] reads the result of the last successful write, never an older value, unless the store
//!    was replaced.
//! 5. **Every completion runs exactly once**, at the latest when the engine closes, in which case it receives
//!    [`StoreError::Closed`] or [`ProbeOutcome::Unknown`].
//! 6. **Watches** report the changes of a bucket in the order of their revisions. A watch that lost its connection
//!    starts over: [`Change::Resync`], a snapshot, [`Change::Synced`]. As long as it reports no `Resync`, it has missed
//!    nothing, and the store is still the same one. So a replaced store needs no notification of its own: by point 4,
//!    its snapshot covers a revision above all known ones, and every entry that is missing from it is gone.
//! 7. **Dropping** a [`Subscription`] ends its callbacks: one that is running may finish, and no further one is made.
//!
//! Callbacks run one at a time for each subscription and must not block. If a callback panics, the engine catches the
//! panic, and only the message that was passed to the callback is lost.
//!
//! [`Change::Resync`]: crate::store::Change::Resync
//! [`Change::Synced`]: crate::store::Change::Synced
//! [`StoreError::Closed`]: crate::store::StoreError::Closed

use crate::store::{Bucket, OnChange, OnRead, OnWrite, Revision};
use bytes::Bytes;
use std::fmt;

/// The connection that a message travels on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Messages between processes, in bulk.
    Data,
    /// Traffic that keeps the cluster together and must never wait behind bulk: leases, handshakes, probes, notices.
    Control,
}

impl Lane {
    /// Both lanes.
    pub const ALL: [Self; 2] = [Self::Data, Self::Control];
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The subject that it was published on. It can be trusted: the broker checks whether a node may publish there.
    /// The payload may claim anything.
    pub subject: String,
    /// The content.
    pub payload: Bytes,
}

/// The answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProbeOutcome {
    /// A subscriber answered.
    Responders,
    /// The broker reported that the subject has no subscriber.
    NoResponders,
    /// There was no answer in time, or no connection. That proves nothing: a stopped node and one behind a slow
    /// network look the same.
    Unknown,
}

/// Why a message was not published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The engine's queue for this lane is full.
    #[error("the engine's queue is full; publish again when it has sent some of it, and slow the source down")]
    Busy,
    /// There is no connection to the broker.
    #[error("there is no connection to the broker; publish again when `Engine::is_connected` is true")]
    Disconnected,
    /// The message is longer than the broker accepts.
    #[error("a message of {bytes} bytes exceeds the broker's limit of {limit}; cut it, or raise the broker's limit")]
    TooLarge {
        /// The length of the message.
        bytes: usize,
        /// The longest message that the broker accepts.
        limit: usize,
    },
    /// The subject is not valid.
    #[error("`{subject}` is not a subject; use parts without spaces and wildcards, joined by dots")]
    BadSubject {
        /// The subject, shortened if it is long.
        subject: String,
    },
    /// The engine has been closed.
    #[error("the engine is closed; join the cluster again with a new engine")]
    Closed,
}

/// Why a subscription or watch was not created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// The pattern is not valid.
    #[error(
        "`{pattern}` is not a pattern; use parts joined by dots, `*` for any one part, `>` at the end for the rest"
    )]
    BadPattern {
        /// The pattern, shortened if it is long.
        pattern: String,
    },
    /// The engine has been closed.
    #[error("the engine is closed; join the cluster again with a new engine")]
    Closed,
}

/// A subscription or a watch. Dropping it ends it.
#[must_use = "dropping a subscription ends it"]
pub struct Subscription {
    unsubscribe: Option<Box<dyn FnOnce() + Send>>,
}

impl Subscription {
    /// Returns a subscription that calls `unsubscribe` when it is dropped.
    pub fn new(unsubscribe: impl FnOnce() + Send + 'static) -> Self {
        Self { unsubscribe: Some(Box::new(unsubscribe)) }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(unsubscribe) = self.unsubscribe.take() {
            unsubscribe();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

/// A callback that receives the messages of a subscription.
pub type OnMessage = Box<dyn FnMut(Message) + Send>;
/// A callback that receives the answer to a probe.
pub type OnProbe = Box<dyn FnOnce(ProbeOutcome) + Send>;
/// A failed attempt to connect to a server, or to use its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The address of the server.
    pub server: String,
    /// Why there is no connection, or no store, and what to do about it.
    pub problem: String,
}

/// A message broker with a store. The [module documentation](self) has the contract.
pub trait Engine: Send + Sync {
    /// Publishes a message. `Ok` means that the engine has accepted it, not that it will arrive.
    ///
    /// # Errors
    /// [`PublishError::Busy`] if the engine's queue is full; the call does not wait.
    fn publish(&self, lane: Lane, subject: &str, payload: Bytes) -> Result<(), PublishError>;

    /// Subscribes to all subjects of a pattern. A part `*` of the pattern matches any one part.
    ///
    /// The subscription reaches the broker some time later, and may be interrupted. Before relying on it, confirm it
    /// with the publisher by a handshake.
    ///
    /// # Errors
    /// If the pattern is not valid, or the engine is closed.
    fn subscribe(&self, lane: Lane, pattern: &str, on_message: OnMessage) -> Result<Subscription, SubscribeError>;

    /// Asks whether `subject` has a subscriber. The engine of the subscriber answers, not its callback.
    fn probe(&self, subject: &str, then: OnProbe);

    /// Creates an entry. A key that already exists is a conflict.
    fn create(&self, bucket: Bucket, key: &str, value: Bytes, then: OnWrite);

    /// Replaces an entry that has revision `expected`.
    fn update(&self, bucket: Bucket, key: &str, value: Bytes, expected: Revision, then: OnWrite);

    /// Deletes an entry that has revision `expected`. A key that does not exist is a conflict too.
    fn delete(&self, bucket: Bucket, key: &str, expected: Revision, then: OnWrite);

    /// Reads an entry.
    fn get(&self, bucket: Bucket, key: &str, then: OnRead);

    /// Reports all changes after revision `after`. Without `after`, or if the broker no longer has all changes since
    /// then, the watch begins with [`Change::Resync`](crate::store::Change::Resync) and a snapshot.
    ///
    /// # Errors
    /// If the engine is closed.
    fn watch(
        &self,
        bucket: Bucket,
        after: Option<Revision>,
        on_change: OnChange,
    ) -> Result<Subscription, SubscribeError>;

    /// Returns whether the engine is connected to the broker now. The connection may be lost before the caller acts on
    /// the result.
    fn is_connected(&self) -> bool;

    /// Returns the problem that keeps this node from the broker, and its remedy. `None` if no such problem is known,
    /// though the connection may be down at the moment.
    fn obstacle(&self) -> Option<String> {
        None
    }

    /// Returns the servers that the engine has tried to connect to since it was last connected, and why each attempt
    /// failed. While the engine is connected but its store is not ready, returns the server that it waits for. An
    /// engine without servers returns none.
    fn attempts(&self) -> Vec<Attempt> {
        Vec::new()
    }

    /// Returns how many times the broker has refused a request of this node for lack of permission.
    fn refused(&self) -> u64 {
        0
    }
}

/// The argument of [`Builder::join`](crate::Builder::join): an engine, or settings that create one when the cluster's
/// name is known.
pub trait Connect {
    /// The engine.
    type Engine: Engine + 'static;

    /// Returns the engine of the node `node` of the cluster `cluster`.
    ///
    /// # Errors
    /// If the settings are wrong; the error says how to correct them. An unreachable broker is not an error: it may
    /// become reachable later.
    fn connect(self, cluster: &str, node: &str) -> Result<Self::Engine, Box<dyn std::error::Error + Send + Sync>>;
}

impl<E: Engine + 'static> Connect for E {
    type Engine = Self;

    fn connect(self, _: &str, _: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self)
    }
}

/// Forwards each call to the shared engine.
impl<E: Engine + ?Sized> Engine for std::sync::Arc<E> {
    fn publish(&self, lane: Lane, subject: &str, payload: Bytes) -> Result<(), PublishError> {
        (**self).publish(lane, subject, payload)
    }

    fn subscribe(&self, lane: Lane, pattern: &str, on_message: OnMessage) -> Result<Subscription, SubscribeError> {
        (**self).subscribe(lane, pattern, on_message)
    }

    fn probe(&self, subject: &str, then: OnProbe) {
        (**self).probe(subject, then);
    }

    fn create(&self, bucket: Bucket, key: &str, value: Bytes, then: OnWrite) {
        (**self).create(bucket, key, value, then);
    }

    fn update(&self, bucket: Bucket, key: &str, value: Bytes, expected: Revision, then: OnWrite) {
        (**self).update(bucket, key, value, expected, then);
    }

    fn delete(&self, bucket: Bucket, key: &str, expected: Revision, then: OnWrite) {
        (**self).delete(bucket, key, expected, then);
    }

    fn get(&self, bucket: Bucket, key: &str, then: OnRead) {
        (**self).get(bucket, key, then);
    }

    fn watch(
        &self,
        bucket: Bucket,
        after: Option<Revision>,
        on_change: OnChange,
    ) -> Result<Subscription, SubscribeError> {
        (**self).watch(bucket, after, on_change)
    }

    fn is_connected(&self) -> bool {
        (**self).is_connected()
    }

    fn obstacle(&self) -> Option<String> {
        (**self).obstacle()
    }

    fn attempts(&self) -> Vec<Attempt> {
        (**self).attempts()
    }

    fn refused(&self) -> u64 {
        (**self).refused()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn an_engine_is_an_object() {
        fn takes(_: &dyn Engine) {}
        let _: fn(&dyn Engine) = takes;
    }

    #[test]
    fn dropping_a_subscription_ends_it_once() {
        let ended = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&ended);
        let subscription = Subscription::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(ended.load(Ordering::Relaxed), 0);
        drop(subscription);
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn errors_say_what_to_do() {
        assert!(PublishError::Busy.to_string().contains("publish again"));
    }
}
