//! The changes that a watch reports, derived from the server's messages without a connection, a clock or a task.
//!
//! The server sends the messages of a bucket's stream to a *consumer*, which lasts at most as long as the connection.
//! Each new consumer either **continues** after the last reported revision, or takes a **snapshot**: the last message
//! of each key, and then all later ones.
//!
//! # Detection of a replaced store
//! A store may be lost or replaced while the watch is interrupted, and the new one may have different content at the
//! last reported revision. So a consumer that continues begins **with** that revision: the store is the same if the
//! message was written at the same time, to the nanosecond. If the message differs, or is gone, the watch begins anew
//! with a snapshot.
//!
//! # Detection of missed messages
//! The revisions of a stream have no gaps when they are written, and the consumer sends all that still exist. So a
//! watch that continues has missed something if and only if there is a gap in the messages that arrive. It then begins
//! anew with a snapshot. That covers an interruption of any length, a message that the client has dropped, and a
//! revision that was replaced before a slow server sent it.
//!
//! No later message reveals a gap at the end, so there is a **goal**: the last revision of the stream after the
//! consumer was created. If the consumer has nothing more and the goal was not reached, either the consumer's replica
//! lags, or the message is gone. The leader knows which.
//!
//! # Snapshots are reported as a whole
//! The messages of a snapshot are collected until the goal is reached, so that keys that are deleted in the meantime
//! are not in it.
//!
//! # Deletions are reported once
//! When a tombstone in [`Bucket::Leases`](postroom_cluster::store::Bucket::Leases) expires, the server replaces it
//! with a marker, as it does for an entry. Such markers are not reported. A watch that began after a given revision
//! does not know the tombstones before it, so it reports their markers too.

use bytes::Bytes;
use postroom_cluster::store::{Change, Entry, Revision};
use std::collections::{BTreeMap, BTreeSet};

/// The messages that the consumer has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplayStart {
    /// The last message of each key, and all later ones.
    Snapshot,
    /// All messages from this revision on.
    From(u64),
}

/// An operation on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyOperation {
    Put(Bytes),
    /// A tombstone.
    Delete,
    /// The server's marker in place of an expired message.
    Expire,
}

/// A message of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamMessage {
    /// Its number among the messages of the consumer, from 1.
    pub(crate) number: u64,
    pub(crate) revision: u64,
    /// Number of messages that the consumer has after it.
    pub(crate) pending: u64,
    /// The time when it was written, in nanoseconds on the server's clock.
    pub(crate) time: u64,
    pub(crate) key: String,
    pub(crate) operation: KeyOperation,
}

/// The next step of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Report these changes, and wait for the next message.
    Report(Vec<Change>),
    /// Report these changes; then ask the leader whether it has this revision, and call `answered`.
    Ask(Vec<Change>, u64),
    /// Create another consumer: something was missed.
    Restart,
}

/// The state of a watch.
pub(crate) struct Replay {
    /// The revision up to which everything has been reported; `None` if a snapshot is needed.
    position: Option<u64>,
    /// The time when the message at the position was written, if that message has arrived.
    time: Option<u64>,
    /// Whether the consumer has to send the message at the position once more.
    is_continuing: bool,
    /// Whether a consumer has been created.
    has_begun: bool,
    /// The snapshot in progress.
    snapshot: Option<Snapshot>,
    goal: u64,
    /// The number of the consumer's last message.
    number: u64,
    /// Number of messages that the consumer had after that message.
    pending: u64,
    /// Keys whose last known message is a tombstone: their markers are not reported. A marker removes its key, so the
    /// set is bounded by the number of deletions within one lease time.
    tombstones: BTreeSet<String>,
}

#[derive(Default)]
struct Snapshot {
    entries: BTreeMap<String, Entry>,
    /// The largest revision that has arrived.
    last: u64,
    /// The time when that revision was written.
    time: Option<u64>,
}

impl Replay {
    pub(crate) fn new(after: Option<Revision>) -> Self {
        Self {
            position: after.map(|after| after.0).filter(|after| *after < u64::MAX),
            time: None,
            is_continuing: false,
            has_begun: false,
            snapshot: None,
            goal: 0,
            number: 0,
            pending: 0,
            tombstones: BTreeSet::new(),
        }
    }

    /// Returns what the next consumer has to send.
    pub(crate) fn start(&mut self) -> ReplayStart {
        self.number = 0;
        self.is_continuing = self.position.is_some() && self.time.is_some();
        match self.position {
            Some(position) if self.is_continuing => {
                self.snapshot = None;
                ReplayStart::From(position)
            }
            // Nothing has been reported yet, and the caller knows everything before the position.
            Some(position) if !self.has_begun => ReplayStart::From(position + 1),
            _ => {
                self.position = None;
                self.snapshot = Some(Snapshot::default());
                ReplayStart::Snapshot
            }
        }
    }

    /// Records that the consumer was created with `pending` messages. The stream's last revision, read after that,
    /// was `goal`.
    pub(crate) fn started(&mut self, pending: u64, goal: u64) -> Next {
        let is_behind = self.position.is_some_and(|position| goal < position);
        if is_behind || self.is_continuing && pending == 0 {
            return self.missed();
        }
        self.has_begun = true;
        self.goal = goal;
        // The first message of a consumer that continues is only compared, so wait for it.
        if self.is_continuing { Next::Report(Vec::new()) } else { self.proceed(Vec::new(), pending) }
    }

    /// Handles a message of the consumer.
    pub(crate) fn delivered(&mut self, delivery: StreamMessage) -> Next {
        let StreamMessage { number, revision, pending, time, key, operation } = delivery;
        if number != self.number + 1 {
            // The client has lost a message. The next consumer continues after the position, and shows whether the
            // message still exists.
            return Next::Restart;
        }
        self.number = number;
        if std::mem::take(&mut self.is_continuing) {
            let is_known = (self.position, self.time) == (Some(revision), Some(time));
            return if is_known { self.proceed(Vec::new(), pending) } else { self.missed() };
        }
        let mut changes = Vec::new();
        if let Some(snapshot) = &mut self.snapshot {
            if revision > snapshot.last {
                (snapshot.last, snapshot.time) = (revision, Some(time));
            }
            match operation {
                KeyOperation::Put(value) => {
                    self.tombstones.remove(&key);
                    let entry = Entry { key: key.clone(), value, revision: Revision(revision) };
                    snapshot.entries.insert(key, entry);
                }
                operation => {
                    snapshot.entries.remove(&key);
                    if operation == KeyOperation::Delete {
                        self.tombstones.insert(key);
                    }
                }
            }
        } else {
            if self.position.is_none_or(|position| revision != position + 1) {
                return self.missed();
            }
            (self.position, self.time) = (Some(revision), Some(time));
            changes.extend(self.change(key, revision, operation));
        }
        self.proceed(changes, pending)
    }

    fn change(&mut self, key: String, revision: u64, operation: KeyOperation) -> Option<Change> {
        let revision = Revision(revision);
        let was_deleted = self.tombstones.remove(&key);
        match operation {
            KeyOperation::Put(value) => Some(Change::Put(Entry { key, value, revision })),
            KeyOperation::Delete => {
                self.tombstones.insert(key.clone());
                Some(Change::Deleted { key, revision })
            }
            KeyOperation::Expire => (!was_deleted).then_some(Change::Deleted { key, revision }),
        }
    }

    /// Handles a report of an idle consumer, with the number of its last message.
    pub(crate) fn idle(&mut self, number: u64) -> Next {
        match number == self.number {
            // The message to continue with has been removed in the meantime.
            true if self.is_continuing => self.missed(),
            true => self.proceed(Vec::new(), self.pending),
            false => Next::Restart,
        }
    }

    /// Handles the leader's answer to the question whether it has the revision of `Next::Ask`.
    pub(crate) fn answered(&mut self, is_there: bool) -> Next {
        match (is_there, self.snapshot.is_some()) {
            // The replica lags: the message will arrive.
            (true, _) => Next::Report(Vec::new()),
            (false, true) => Next::Report(self.synced()),
            (false, false) => self.missed(),
        }
    }

    fn proceed(&mut self, mut changes: Vec<Change>, pending: u64) -> Next {
        self.pending = pending;
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
        let Snapshot { entries, last, time } = self.snapshot.take().unwrap_or_default();
        let position = last.max(self.goal);
        (self.position, self.time) = (Some(position), time.filter(|_| position == last));
        let mut entries: Vec<_> = entries.into_values().collect();
        entries.sort_by_key(|entry| entry.revision);
        let synced = Change::Synced { revision: Revision(position) };
        [Change::Resync].into_iter().chain(entries.into_iter().map(Change::Put)).chain([synced]).collect()
    }

    fn missed(&mut self) -> Next {
        (self.position, self.time) = (None, None);
        self.tombstones.clear();
        Next::Restart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time when the store was new.
    const DAY: u64 = 1_000;

    /// A consumer like one on the server: it numbers its messages.
    struct Consumer {
        replay: Replay,
        number: u64,
    }

    impl Consumer {
        fn snapshot(pending: u64, goal: u64) -> (Self, Next) {
            Self::start(Replay::new(None), ReplayStart::Snapshot, pending, goal)
        }

        fn after(revision: u64, pending: u64, goal: u64) -> (Self, Next) {
            Self::start(Replay::new(Some(Revision(revision))), ReplayStart::From(revision + 1), pending, goal)
        }

        fn start(mut replay: Replay, expected: ReplayStart, pending: u64, goal: u64) -> (Self, Next) {
            assert_eq!(replay.start(), expected);
            let next = replay.started(pending, goal);
            (Self { replay, number: 0 }, next)
        }

        fn again(self, expected: ReplayStart, pending: u64, goal: u64) -> (Self, Next) {
            Self::start(self.replay, expected, pending, goal)
        }

        fn send(&mut self, revision: u64, key: &str, operation: KeyOperation, pending: u64) -> Next {
            self.number += 1;
            self.send_of(DAY + revision, revision, key, operation, pending)
        }

        /// Sends a message that was written at a certain time.
        fn send_of(&mut self, time: u64, revision: u64, key: &str, operation: KeyOperation, pending: u64) -> Next {
            let delivery = StreamMessage { number: self.number, revision, pending, time, key: key.into(), operation };
            self.replay.delivered(delivery)
        }

        fn put(&mut self, revision: u64, key: &str, pending: u64) -> Next {
            self.send(revision, key, KeyOperation::Put("value".into()), pending)
        }
    }

    fn put(key: &str, revision: u64) -> Change {
        Change::Put(Entry { key: key.into(), value: "value".into(), revision: Revision(revision) })
    }

    fn deleted(key: &str, revision: u64) -> Change {
        Change::Deleted { key: key.into(), revision: Revision(revision) }
    }

    fn synced(revision: u64) -> Change {
        Change::Synced { revision: Revision(revision) }
    }

    fn report<const N: usize>(changes: [Change; N]) -> Next {
        Next::Report(changes.into())
    }

    #[test]
    fn an_empty_bucket_is_a_snapshot_at_once() {
        let (mut consumer, next) = Consumer::snapshot(0, 0);
        assert_eq!(next, report([Change::Resync, synced(0)]));
        assert_eq!(consumer.put(1, "a", 0), report([put("a", 1)]));
    }

    #[test]
    fn a_snapshot_is_whole_and_has_what_came_last() {
        let (mut consumer, next) = Consumer::snapshot(3, 7);
        assert_eq!(next, report([]));
        assert_eq!(consumer.put(3, "a", 2), report([]));
        assert_eq!(consumer.put(5, "b", 1), report([]));
        // Written between the creation of the consumer and the request for the goal.
        assert_eq!(consumer.send(6, "a", KeyOperation::Delete, 1), report([]));
        assert_eq!(consumer.put(7, "c", 0), report([Change::Resync, put("b", 5), put("c", 7), synced(7)]));
        assert_eq!(consumer.send(8, "b", KeyOperation::Delete, 0), report([deleted("b", 8)]));
    }

    #[test]
    fn a_snapshot_waits_for_a_replica_that_lags() {
        let (mut consumer, next) = Consumer::snapshot(0, 2);
        assert_eq!(next, Next::Ask(vec![], 2));
        assert_eq!(consumer.replay.answered(true), report([]));
        assert_eq!(consumer.put(1, "a", 0), Next::Ask(vec![], 2));
        assert_eq!(consumer.replay.answered(true), report([]));
        assert_eq!(consumer.replay.idle(1), Next::Ask(vec![], 2));
        assert_eq!(consumer.replay.answered(true), report([]));
        assert_eq!(consumer.put(2, "b", 0), report([Change::Resync, put("a", 1), put("b", 2), synced(2)]));
        assert_eq!(consumer.replay.idle(2), report([]));
    }

    #[test]
    fn a_snapshot_does_not_wait_for_what_is_gone() {
        let (mut consumer, _) = Consumer::snapshot(1, 9);
        assert_eq!(consumer.put(4, "a", 0), Next::Ask(vec![], 9));
        assert_eq!(consumer.replay.answered(false), report([Change::Resync, put("a", 4), synced(9)]));
        assert_eq!(consumer.put(10, "b", 0), report([put("b", 10)]));
    }

    #[test]
    fn a_watch_goes_on_where_it_was() {
        let (mut consumer, next) = Consumer::after(3, 2, 5);
        assert_eq!(next, report([]));
        assert_eq!(consumer.put(4, "a", 1), report([put("a", 4)]));
        let (mut consumer, next) = consumer.again(ReplayStart::From(4), 2, 5);
        assert_eq!(next, report([]));
        assert_eq!(consumer.put(4, "a", 1), report([]), "it is known");
        assert_eq!(consumer.put(5, "b", 0), report([put("b", 5)]));
        let (mut consumer, next) = consumer.again(ReplayStart::From(5), 1, 5);
        assert_eq!(next, report([]));
        assert_eq!(consumer.put(5, "b", 0), report([]));
        assert_eq!(consumer.put(6, "c", 0), report([put("c", 6)]));
    }

    #[test]
    fn a_gap_is_followed_by_a_snapshot() {
        let (mut consumer, _) = Consumer::after(3, 1, 5);
        assert_eq!(consumer.put(5, "a", 0), Next::Restart);
        let (mut consumer, next) = consumer.again(ReplayStart::Snapshot, 0, 0);
        assert_eq!(next, report([Change::Resync, synced(0)]));
        assert_eq!(consumer.put(2, "a", 0), Next::Restart);
        consumer.again(ReplayStart::Snapshot, 0, 0);
    }

    #[test]
    fn a_gap_at_the_end_is_found_by_asking() {
        let (mut consumer, next) = Consumer::after(3, 0, 4);
        assert_eq!(next, Next::Ask(vec![], 4));
        assert_eq!(consumer.replay.answered(true), report([]));
        assert_eq!(consumer.put(4, "a", 0), report([put("a", 4)]));
        let (mut consumer, _) = consumer.again(ReplayStart::From(4), 2, 6);
        assert_eq!(consumer.put(4, "a", 1), report([]));
        assert_eq!(consumer.put(5, "a", 0), Next::Ask(vec![put("a", 5)], 6));
        assert_eq!(consumer.replay.answered(false), Next::Restart);
        consumer.again(ReplayStart::Snapshot, 0, 6);
    }

    /// The other stream may be a new one, or an older copy with fewer or more messages than were reported.
    #[test]
    fn a_stream_that_is_another_is_followed_by_a_snapshot() {
        let interrupted = || {
            let (mut consumer, _) = Consumer::after(3, 1, 4);
            assert_eq!(consumer.put(4, "a", 0), report([put("a", 4)]));
            consumer
        };
        for (pending, goal) in [(0, 0), (0, 2), (0, 4), (0, 9), (1, 3)] {
            let (consumer, next) = interrupted().again(ReplayStart::From(4), pending, goal);
            assert_eq!(next, Next::Restart, "{pending} of {goal}");
            consumer.again(ReplayStart::Snapshot, 0, 0);
        }
        for (time, revision) in [(DAY + 7, 4), (DAY + 4, 5), (DAY + 7, 1_000_000)] {
            let (mut consumer, next) = interrupted().again(ReplayStart::From(4), 2, revision + 1);
            assert_eq!(next, report([]));
            consumer.number += 1;
            let next = consumer.send_of(time, revision, "a", KeyOperation::Put("other".into()), 1);
            assert_eq!(next, Next::Restart, "{revision} at {time}");
            let (_, next) = consumer.again(ReplayStart::Snapshot, 0, 0);
            assert_eq!(next, report([Change::Resync, synced(0)]));
        }
        // The stream has been emptied since the consumer was created, and no message follows.
        let (mut consumer, _) = interrupted().again(ReplayStart::From(4), 1, 4);
        assert_eq!(consumer.replay.idle(0), Next::Restart);
        consumer.again(ReplayStart::Snapshot, 0, 0);
    }

    /// If no message has arrived for the last reported revision, nothing shows that the store is still the same.
    #[test]
    fn a_watch_that_knows_no_message_begins_with_a_snapshot() {
        let (consumer, next) = Consumer::snapshot(0, 0);
        assert_eq!(next, report([Change::Resync, synced(0)]));
        consumer.again(ReplayStart::Snapshot, 0, 0);
        let (mut consumer, _) = Consumer::snapshot(1, 9);
        consumer.put(4, "a", 0);
        assert_eq!(consumer.replay.answered(false), report([Change::Resync, put("a", 4), synced(9)]));
        let (mut consumer, next) = consumer.again(ReplayStart::Snapshot, 1, 10);
        assert_eq!(next, report([]));
        assert_eq!(consumer.put(10, "a", 0), report([Change::Resync, put("a", 10), synced(10)]));
        consumer.again(ReplayStart::From(10), 1, 10);
    }

    #[test]
    fn what_the_client_has_lost_is_sent_again() {
        let (mut consumer, _) = Consumer::after(3, 0, 3);
        consumer.put(4, "a", 0);
        consumer.number += 1;
        assert_eq!(consumer.put(6, "c", 0), Next::Restart);
        let (mut consumer, _) = consumer.again(ReplayStart::From(4), 3, 6);
        consumer.put(4, "a", 2);
        let mut replay = consumer.replay;
        assert_eq!(replay.idle(1), report([]));
        assert_eq!(replay.idle(2), Next::Restart);
        // A snapshot starts over.
        let (mut consumer, _) = Consumer::snapshot(3, 3);
        consumer.put(1, "a", 2);
        consumer.number += 1;
        assert_eq!(consumer.put(3, "c", 0), Next::Restart);
        let (mut consumer, _) = consumer.again(ReplayStart::Snapshot, 1, 3);
        assert_eq!(consumer.put(3, "c", 0), report([Change::Resync, put("c", 3), synced(3)]));
    }

    #[test]
    fn markers_are_reported_unless_the_deletion_was() {
        let (mut consumer, _) = Consumer::snapshot(2, 2);
        consumer.put(1, "a", 1);
        consumer.send(2, "b", KeyOperation::Delete, 0);
        assert_eq!(consumer.send(3, "b", KeyOperation::Expire, 0), report([]), "it was not in the snapshot");
        assert_eq!(consumer.send(4, "a", KeyOperation::Expire, 0), report([deleted("a", 4)]));
        consumer.put(5, "a", 0);
        assert_eq!(consumer.send(6, "a", KeyOperation::Delete, 0), report([deleted("a", 6)]));
        assert_eq!(consumer.send(7, "a", KeyOperation::Expire, 0), report([]));
        consumer.send(8, "b", KeyOperation::Delete, 0);
        consumer.put(9, "b", 0);
        assert_eq!(consumer.send(10, "b", KeyOperation::Expire, 0), report([deleted("b", 10)]));
        assert_eq!(consumer.replay.tombstones.len(), 0);
    }

    #[test]
    fn impossible_revisions_begin_with_a_snapshot() {
        assert_eq!(Replay::new(Some(Revision(u64::MAX))).start(), ReplayStart::Snapshot);
        assert_eq!(Replay::new(Some(Revision(u64::MAX - 1))).start(), ReplayStart::From(u64::MAX));
    }
}
