//! What a cluster needs of a message broker.
//!
//! An [`Engine`] carries messages between nodes and keeps a small store that all nodes agree on. It is written in
//! callbacks: no method waits, so an engine needs no thread of the caller, fits any event loop, and runs under a
//! simulator. NATS is one engine.
//!
//! # Contract
//! The numbers are those of the checks of a conformance suite.
//!
//! 1. **No call blocks**, and no callback runs inside the call that registered it: a caller may hold a lock.
//! 2. **Messages**: delivered at most once, and in order between one publisher's lane and one subscription. They may
//!    be lost without notice, before a subscription has reached the broker in particular; [`Engine::publish`] reports
//!    what the engine knows at once, and no more.
//! 3. **Lanes** are independent connections: what waits in [`Lane::Data`] never delays [`Lane::Control`]. Between the
//!    lanes there is no order. They are no name spaces: a subscription gets what is published in either lane.
//! 4. **Store**: each write has a revision, larger than all before it in its bucket, **also when the store was lost**
//!    in between, or an older copy has taken its place, if an engine is open that has seen more. Only in
//!    [`Bucket::Leases`] a revision of an older copy may come twice. [`Engine::create`], [`Engine::update`] and
//!    [`Engine::delete`] compare and set: of several that expect the same revision, one succeeds. [`Engine::get`] reads
//!    what the last successful write left, never an older value, unless the store is another.
//! 5. **Every completion runs exactly once**, at the latest when the engine closes; then with [`StoreError::Closed`],
//!    or [`ProbeOutcome::Unknown`].
//! 6. **Watches** report the changes of a bucket in the order of their revisions. A watch that lost its connection
//!    starts over: [`Change::Resync`], a snapshot, [`Change::Synced`]. Without a `Resync` in between it has missed
//!    nothing, and the store is the same one. So a store that is another needs no word of its own: by 4, its snapshot
//!    covers a revision above all that is known, and what it does not contain is gone.
//! 7. A **dropped** [`Subscription`] makes no further call once a call that is running has returned.
//!
//! Callbacks run one at a time for each subscription and must not block. A callback that panics costs its own
//! message: the engine catches the panic.

use bytes::Bytes;
use std::fmt;

/// The connection that a message travels on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Messages between processes, in bulk.
    Data,
    /// What keeps the cluster together, and must never wait behind bulk: leases, handshakes, probes, notices.
    Control,
}

impl Lane {
    /// Both lanes.
    pub const ALL: [Self; 2] = [Self::Data, Self::Control];
}

/// A message that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The subject that it was published on. The broker vouches for it: whether a node may publish there is checked by
    /// the broker, while the payload may claim anything.
    pub subject: String,
    /// Its content.
    pub payload: Bytes,
}

/// A table of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// One record for each node that has joined.
    Nodes,
    /// One lease for each node, which the broker deletes when it has not been written for
    /// [`LEASE_TTL`](Self::LEASE_TTL).
    Leases,
    /// The names that one process of the cluster holds.
    Names,
    /// How many members of each group each node has.
    Groups,
}

impl Bucket {
    /// All tables.
    pub const ALL: [Self; 4] = [Self::Nodes, Self::Leases, Self::Names, Self::Groups];

    /// The age at which the broker deletes an entry of [`Bucket::Leases`]; counted from its last write, on the
    /// broker's clock.
    pub const LEASE_TTL: std::time::Duration = std::time::Duration::from_secs(15);
}

/// The number of a write: larger than those of all earlier writes to the same bucket. It is not the count of them: a
/// table of a server begins at its clock.
///
/// The revision of the entry that made a process the holder of a name is its fencing token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What the store has under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Bytes,
    /// The number of the write that put it there.
    pub revision: Revision,
}

/// What a watch reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A snapshot follows, up to [`Synced`](Self::Synced): changes may have been missed. Keys that are not in the
    /// snapshot may be gone; read them again to be sure, since one that is written while the snapshot is taken may
    /// come after it.
    Resync,
    /// An entry was written.
    Put(Entry),
    /// An entry was deleted, or became too old.
    Deleted {
        /// Its key.
        key: String,
        /// The number of the deletion.
        revision: Revision,
    },
    /// The snapshot is complete; what follows is new.
    Synced {
        /// The last revision that the snapshot covers.
        revision: Revision,
    },
}

/// The answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProbeOutcome {
    /// A subscriber answered.
    Responders,
    /// The broker says that the subject has no subscriber.
    NoResponders,
    /// No answer in time, or no connection. That proves nothing: a node that is stopped, and one behind a slow network,
    /// look like this.
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
    /// The message is longer than the broker takes.
    #[error("a message of {bytes} bytes exceeds the broker's limit of {limit}; cut it, or raise the broker's limit")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The longest message that the broker takes.
        limit: usize,
    },
    /// The subject cannot be published on.
    #[error("`{subject}` is not a subject; use parts without spaces and wildcards, joined by dots")]
    BadSubject {
        /// The subject, shortened if it is long.
        subject: String,
    },
    /// The engine has been closed.
    #[error("the engine is closed; join the cluster again with a new engine")]
    Closed,
}

/// Why there is no subscription or watch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// The pattern is not one.
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

/// Why the store did not do as it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The key does not have the revision that was expected. Nothing was written, or an earlier attempt of the same
    /// caller was written whose answer was lost.
    #[error("`{key}` was written by another, or by an earlier attempt; read it again before drawing a conclusion")]
    Conflict {
        /// The key.
        key: String,
    },
    /// The store has no leader, or cannot be reached. Nothing was written.
    #[error("the store cannot be reached, and has done nothing; try again, and check the broker if that goes on")]
    Unavailable,
    /// There was no answer in time.
    #[error("the store did not answer; it may have written or not: read the key again")]
    Unknown,
    /// The key or the value is longer than the store takes.
    #[error("{bytes} bytes under one key exceed the store's limit of {limit}; store less under each key")]
    TooLarge {
        /// The length of key and value.
        bytes: usize,
        /// The most that the store takes.
        limit: usize,
    },
    /// The key cannot be one.
    #[error("`{key}` is not a key; use letters, digits, `-`, `_`, `=` and `/`, with single dots between them")]
    BadKey {
        /// The key, shortened if it is long.
        key: String,
    },
    /// The broker does not let this node write it. Nothing was written.
    #[error("the broker does not let this node write `{key}`; give the node the key that was made for its name")]
    Forbidden {
        /// The key.
        key: String,
    },
    /// The table has no room for another key. Nothing was written.
    #[error("the table of `{key}` is full; delete what is not needed, or raise the limit of the table")]
    Full {
        /// The key.
        key: String,
    },
    /// The engine has been closed.
    #[error("the engine is closed; join the cluster again with a new engine")]
    Closed,
}

/// A subscription or a watch: dropping it ends it.
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

/// Receives the messages of a subscription.
pub type OnMessage = Box<dyn FnMut(Message) + Send>;
/// Receives the changes of a bucket.
pub type OnChange = Box<dyn FnMut(Change) + Send>;
/// Receives the answer to a probe.
pub type OnProbe = Box<dyn FnOnce(ProbeOutcome) + Send>;
/// Receives the revision of a write or of a deletion.
pub type OnWrite = Box<dyn FnOnce(Result<Revision, StoreError>) + Send>;
/// Receives an entry; `None` if the store has none.
pub type OnRead = Box<dyn FnOnce(Result<Option<Entry>, StoreError>) + Send>;

/// A server from which an engine does not have what a node needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its address.
    pub server: String,
    /// Why there is no connection, or no store, and what to do about it.
    pub problem: String,
}

/// A message broker with a store. The head of the [module](self) has the contract.
pub trait Engine: Send + Sync {
    /// Publishes a message. `Ok` means that the engine has taken it, not that it will arrive.
    ///
    /// # Errors
    /// [`PublishError::Busy`] at once, instead of waiting, if the engine's queue is full.
    fn publish(&self, lane: Lane, subject: &str, payload: Bytes) -> Result<(), PublishError>;

    /// Subscribes to all subjects of a pattern, whose part `*` stands for any one part.
    ///
    /// The subscription reaches the broker some time later, and may be interrupted: agree with the publisher, by a
    /// handshake, before relying on it.
    ///
    /// # Errors
    /// If the pattern is not one, or the engine is closed.
    fn subscribe(&self, lane: Lane, pattern: &str, on_message: OnMessage) -> Result<Subscription, SubscribeError>;

    /// Asks whether there is a subscriber to `subject`. The subscriber's engine answers, and not its callback.
    fn probe(&self, subject: &str, then: OnProbe);

    /// Writes an entry whose key the bucket does not have.
    fn create(&self, bucket: Bucket, key: &str, value: Bytes, then: OnWrite);

    /// Replaces an entry that has revision `expected`.
    fn update(&self, bucket: Bucket, key: &str, value: Bytes, expected: Revision, then: OnWrite);

    /// Deletes an entry that has revision `expected`. A key that is gone conflicts too.
    fn delete(&self, bucket: Bucket, key: &str, expected: Revision, then: OnWrite);

    /// Reads an entry.
    fn get(&self, bucket: Bucket, key: &str, then: OnRead);

    /// Reports all changes after revision `after`; without one, the watch begins with [`Change::Resync`] and a
    /// snapshot. So it does if the broker no longer has the changes since then.
    ///
    /// # Errors
    /// If the engine is closed.
    fn watch(
        &self,
        bucket: Bucket,
        after: Option<Revision>,
        on_change: OnChange,
    ) -> Result<Subscription, SubscribeError>;

    /// Returns whether there is a connection to the broker now. It may be gone when the caller acts on that.
    fn is_connected(&self) -> bool;

    /// Returns what keeps this node from the broker, and what has to be done about it. `None` if there is nothing
    /// of that kind, though there may be no connection at the moment.
    fn obstacle(&self) -> Option<String> {
        None
    }

    /// Returns the servers that the engine has tried to connect with since it was last connected, and why each attempt
    /// has failed; while it is connected, and its store is not ready, the server that it waits for. An engine without
    /// servers has none.
    fn attempts(&self) -> Vec<Attempt> {
        Vec::new()
    }

    /// Returns how often the broker has refused what this node did, because it had no right to.
    fn refused(&self) -> u64 {
        0
    }
}

/// What [`Builder::join`](crate::Builder::join) takes: an engine, or what one is made from when the cluster's name is
/// known.
pub trait Connect {
    /// What connects.
    type Engine: Engine + 'static;

    /// Returns the engine of the node `node` of the cluster with this name.
    ///
    /// # Errors
    /// What is wrong with its settings, and what to do about it. That the broker cannot be reached is no error: it may
    /// be later.
    fn connect(self, cluster: &str, node: &str) -> Result<Self::Engine, Box<dyn std::error::Error + Send + Sync>>;
}

impl<E: Engine + 'static> Connect for E {
    type Engine = Self;

    fn connect(self, _: &str, _: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self)
    }
}

/// An engine that several share.
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
        let conflict = StoreError::Conflict { key: "node.7f".into() };
        assert!(conflict.to_string().contains("`node.7f`") && conflict.to_string().contains("read it again"));
        assert!(PublishError::Busy.to_string().contains("publish again"));
    }
}
