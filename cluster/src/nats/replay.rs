//! What a watch reports, decided from what the server sends: without connection, clock or task.
//!
//! The server sends the messages of a bucket's stream to a *consumer*, which lasts as long as the connection at most.
//! Each new consumer either **continues** after the last revision that was reported, or takes a **snapshot**: the last
//! message of each key, and then all later ones.
//!
//! # How a watch knows that it has missed nothing
//! The revisions of a stream have no gaps when they are written, and the consumer sends all that are still there. So a
//! watch that continues has missed something exactly if there is a gap in what arrives. It then begins anew with a
//! snapshot. That covers an interruption of any length, a message that the client has dropped, and a server that was
//! slower to send a revision than others were to replace it.
//!
//! A gap at the end shows in no later message, so there is a **goal**: the last revision of the stream when the consumer
//! had been created. If the consumer has nothing more and the goal was not reached, either the consumer's replica lags,
//! or the message is gone. The leader knows which.
//!
//! # Snapshots are reported whole
//! What a snapshot brings is collected until the goal is reached, so that a key that is deleted meanwhile is not in it.
//!
//! # Deletions are reported once
//! When a tombstone in [`Bucket::Leases`](crate::engine::Bucket::Leases) becomes too old, the server puts a marker in its
//! place, as for an entry. Such markers are not reported. A watch that began after a given revision does not know the
//! tombstones before it; it reports their markers too.

use crate::engine::{Change, Entry, Revision};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// What the consumer is to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// The last message of each key, and what comes then.
    Snapshot,
    /// All messages from this one.
    From(u64),
}

/// What was done to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Put(Bytes),
    /// A tombstone.
    Delete,
    /// The server's marker in the place of what has become too old.
    Expire,
}

/// A message of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delivery {
    /// Its number among those of the consumer, from 1.
    pub(super) number: u64,
    pub(super) revision: u64,
    /// How many the consumer has after it.
    pub(super) pending: u64,
    pub(super) key: String,
    pub(super) operation: Operation,
}

/// What has to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Report these, and wait for more.
    Report(Vec<Change>),
    /// Report these; then ask the leader whether it has this revision, and call `answered`.
    Ask(Vec<Change>, u64),
    /// Create another consumer: something was missed.
    Restart,
}

/// A watch.
pub(super) struct Replay {
    /// Everything up to it has been reported; `None` if a snapshot is needed.
    position: Option<u64>,
    /// When the stream that it is a position in was created, once that is known.
    created: Option<String>,
    /// The snapshot that is being taken.
    snapshot: Option<Snapshot>,
    goal: u64,
    /// The last number that the consumer has sent.
    number: u64,
    /// Keys whose last message is a tombstone, as far as it is known: their markers are not reported. A marker takes its
    /// key out, so they become no more than are deleted within one lease.
    tombstones: BTreeSet<String>,
}

#[derive(Default)]
struct Snapshot {
    entries: BTreeMap<String, Entry>,
    /// The largest revision that has arrived.
    last: u64,
}

impl Replay {
    pub(super) fn new(after: Option<Revision>) -> Self {
        Self {
            position: after.map(|after| after.0).filter(|after| *after < u64::MAX),
            created: None,
            snapshot: None,
            goal: 0,
            number: 0,
            tombstones: BTreeSet::new(),
        }
    }

    /// Returns what the next consumer has to send.
    pub(super) fn start(&mut self) -> Start {
        self.number = 0;
        match self.position {
            Some(position) => {
                self.snapshot = None;
                Start::From(position + 1)
            }
            None => {
                self.snapshot = Some(Snapshot::default());
                Start::Snapshot
            }
        }
    }

    /// The consumer has been created with so many messages; after that, the stream's last revision was `goal`.
    pub(super) fn started(&mut self, pending: u64, goal: u64, created: &str) -> Next {
        let is_other_stream = self.created.as_ref().is_some_and(|known| known != created);
        if self.position.is_some_and(|position| goal < position) || is_other_stream && self.position.is_some() {
            return self.missed();
        }
        self.created = Some(created.into());
        self.goal = goal;
        self.proceed(Vec::new(), pending)
    }

    /// A message has arrived.
    pub(super) fn delivered(&mut self, delivery: Delivery) -> Next {
        let Delivery { number, revision, pending, key, operation } = delivery;
        if number != self.number + 1 {
            // The client has lost one. What continues after the position finds out whether that is still there.
            return Next::Restart;
        }
        self.number = number;
        let mut changes = Vec::new();
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.last = snapshot.last.max(revision);
            match operation {
                Operation::Put(value) => {
                    self.tombstones.remove(&key);
                    let entry = Entry { key: key.clone(), value, revision: Revision(revision) };
                    snapshot.entries.insert(key, entry);
                }
                operation => {
                    snapshot.entries.remove(&key);
                    if operation == Operation::Delete {
                        self.tombstones.insert(key);
                    }
                }
            }
        } else {
            if self.position.is_none_or(|position| revision != position + 1) {
                return self.missed();
            }
            self.position = Some(revision);
            changes.extend(self.change(key, revision, operation));
        }
        self.proceed(changes, pending)
    }

    fn change(&mut self, key: String, revision: u64, operation: Operation) -> Option<Change> {
        let revision = Revision(revision);
        let was_deleted = self.tombstones.remove(&key);
        match operation {
            Operation::Put(value) => Some(Change::Put(Entry { key, value, revision })),
            Operation::Delete => {
                self.tombstones.insert(key.clone());
                Some(Change::Deleted { key, revision })
            }
            Operation::Expire => (!was_deleted).then_some(Change::Deleted { key, revision }),
        }
    }

    /// The consumer is idle, and says what it has sent last.
    pub(super) fn idle(&mut self, number: u64) -> Next {
        if number == self.number { self.proceed(Vec::new(), 0) } else { Next::Restart }
    }

    /// The leader has said whether it has the revision that `Next::Ask` names.
    pub(super) fn answered(&mut self, is_there: bool) -> Next {
        match (is_there, self.snapshot.is_some()) {
            // The replica lags: it will come.
            (true, _) => Next::Report(Vec::new()),
            (false, true) => Next::Report(self.synced()),
            (false, false) => self.missed(),
        }
    }

    fn proceed(&mut self, mut changes: Vec<Change>, pending: u64) -> Next {
        let reached = match &self.snapshot {
            Some(snapshot) => snapshot.last,
            None => self.position.unwrap_or(0),
        };
        if reached >= self.goal {
            if self.snapshot.is_some() {
                changes.extend(self.synced());
            }
            Next::Report(changes)
        } else if pending == 0 {
            Next::Ask(changes, self.goal)
        } else {
            Next::Report(changes)
        }
    }

    fn synced(&mut self) -> Vec<Change> {
        let Snapshot { entries, last } = self.snapshot.take().unwrap_or_default();
        let position = last.max(self.goal);
        self.position = Some(position);
        let mut entries: Vec<_> = entries.into_values().collect();
        entries.sort_by_key(|entry| entry.revision);
        let synced = Change::Synced { revision: Revision(position) };
        [Change::Resync].into_iter().chain(entries.into_iter().map(Change::Put)).chain([synced]).collect()
    }

    fn missed(&mut self) -> Next {
        self.position = None;
        self.created = None;
        self.tombstones.clear();
        Next::Restart
    }
}
