//! The store and the subscriptions of a broker in memory, and how one step changes them.

use crate::access::{Access, Answer};
use crate::clock::Moment;
use crate::engine::{Lane, Message, OnMessage, OnProbe, ProbeOutcome};
use crate::rights::Rights;
use crate::store::floor::Floor;
use crate::store::{Bucket, Change, Entry, OnChange, Revision, StoreError};
use crate::subject::{is_key, matches, shortened};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::Waker;

/// The maximum length of a message, and of a value with its key.
pub const MAX_PAYLOAD: usize = 1 << 20;
/// The number of changes of a bucket that are kept, so that watches can resume.
pub const MAX_HISTORY: usize = 1_024;

#[derive(Default)]
pub(super) struct BrokerState {
    pub(super) now: Moment,
    pub(super) clients: Vec<Connection>,
    pub(super) jobs: VecDeque<BrokerJob>,
    pub(super) subscriptions: BTreeMap<u64, BrokerSubscriber>,
    pub(super) watches: BTreeMap<u64, Watcher>,
    pub(super) last_number: u64,
    pub(super) buckets: BTreeMap<Bucket, Records>,
    /// Tables of a lost store that have not been created anew.
    pub(super) missing: BTreeSet<Bucket>,
    /// Whether the clock that new tables begin at stands at zero, as on a machine whose clock is wrong.
    pub(super) has_no_clock: bool,
    /// Wakes the process that runs the broker, in a simulation.
    pub(super) waker: Option<Waker>,
    /// Whether a step is in progress. A second step at the same time would break the order.
    pub(super) in_step: bool,
}

pub(super) struct Connection {
    pub(super) state: ConnectionState,
    /// Number of disconnects. Anything in flight that carries an earlier number is dropped.
    pub(super) breaks: u64,
    /// Number of unprocessed messages, by lane.
    pub(super) queued: BTreeMap<Lane, usize>,
    /// The client's rights; `None` means no restrictions.
    pub(super) rights: Option<Rights>,
    /// Number of operations that were refused for lack of a right.
    pub(super) refused: u64,
    /// The revisions that the client has seen of each table.
    pub(super) floor: Floor,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    Up,
    Down,
    Closed,
}

pub(super) struct BrokerSubscriber {
    pub(super) client: usize,
    pub(super) pattern: String,
    /// `None` while the callback runs.
    pub(super) on_message: Option<OnMessage>,
}

pub(super) struct Watcher {
    pub(super) client: usize,
    pub(super) bucket: Bucket,
    pub(super) on_change: Option<OnChange>,
}

#[derive(Clone, Default)]
pub(super) struct Records {
    pub(super) entries: BTreeMap<String, (Bytes, Revision, Moment)>,
    pub(super) last_revision: u64,
    pub(super) history: VecDeque<Change>,
}

/// A copy of the tables of a store.
#[derive(Clone)]
pub struct StoreCopy(BTreeMap<Bucket, Records>);

impl std::fmt::Debug for StoreCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let last = self.0.iter().map(|(bucket, records)| (bucket, records.last_revision));
        f.debug_map().entries(last).finish()
    }
}

/// The work of one step.
pub(super) enum BrokerJob {
    Publish { client: usize, lane: Lane, message: Message },
    Deliver { subscription: u64, breaks: u64, message: Message },
    Probe { client: usize, subject: String, then: OnProbe },
    Access { client: usize, bucket: Bucket, key: String, access: Access, then: Box<dyn FnOnce(Answer) + Send> },
    Watch { watch: u64, breaks: u64, after: Option<Revision> },
    Report { watch: u64, breaks: u64, change: Change },
}

impl BrokerState {
    pub(super) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn is_up(&self, client: usize) -> bool {
        self.clients[client].state == ConnectionState::Up
    }

    /// Returns true if a client lacks the right to do something, and then counts a refusal.
    pub(super) fn refuses(&mut self, client: usize, may: impl FnOnce(&Rights) -> bool) -> bool {
        let connection = &mut self.clients[client];
        let is_refused = connection.rights.as_ref().is_some_and(|rights| !may(rights));
        connection.refused += u64::from(is_refused);
        is_refused
    }

    #[cfg(any(test, feature = "test"))]
    pub(super) fn has(&self, bucket: Bucket, key: &str) -> bool {
        self.buckets.get(&bucket).is_some_and(|records| records.entries.contains_key(key))
    }

    /// Returns when the first lease expires.
    #[cfg(any(test, feature = "test"))]
    pub(super) fn next_expiry(&self) -> Option<Moment> {
        let leases = self.buckets.get(&Bucket::Leases)?;
        leases.entries.values().map(|(.., written)| *written + Bucket::LEASE_TTL).min()
    }

    /// Returns whether something that was sent to a client may still arrive: the client must not have disconnected
    /// since.
    fn arrives(&self, client: usize, breaks: u64) -> bool {
        self.is_up(client) && self.clients[client].breaks == breaks
    }

    pub(super) fn take_subscriber(&mut self, subscription: u64, breaks: u64) -> Option<OnMessage> {
        let client = self.subscriptions.get(&subscription)?.client;
        if !self.arrives(client, breaks) {
            return None;
        }
        self.subscriptions.get_mut(&subscription)?.on_message.take()
    }

    pub(super) fn take_watcher(&mut self, watch: u64, breaks: u64) -> Option<OnChange> {
        let client = self.watches.get(&watch)?.client;
        if !self.arrives(client, breaks) {
            return None;
        }
        self.watches.get_mut(&watch)?.on_change.take()
    }

    pub(super) fn subscribers(&self, subject: &str) -> impl Iterator<Item = (u64, &BrokerSubscriber)> {
        let wanted =
            |subscriber: &&BrokerSubscriber| matches(&subscriber.pattern, subject) && self.is_up(subscriber.client);
        self.subscriptions.iter().map(|(number, subscriber)| (*number, subscriber)).filter(move |(_, s)| wanted(s))
    }

    pub(super) fn publish(&mut self, client: usize, lane: Lane, message: &Message) {
        if let Some(queued) = self.clients[client].queued.get_mut(&lane) {
            *queued = queued.saturating_sub(1);
        }
        if !self.is_up(client) || self.refuses(client, |rights| rights.may_publish(&message.subject)) {
            return;
        }
        let deliveries: Vec<_> = self
            .subscribers(&message.subject)
            .map(|(subscription, subscriber)| BrokerJob::Deliver {
                subscription,
                breaks: self.clients[subscriber.client].breaks,
                message: message.clone(),
            })
            .collect();
        self.jobs.extend(deliveries);
    }

    pub(super) fn probe(&mut self, client: usize, subject: &str) -> ProbeOutcome {
        if !self.is_up(client) || self.refuses(client, |rights| rights.may_publish(subject)) {
            ProbeOutcome::Unknown
        } else if self.subscribers(subject).next().is_some() {
            ProbeOutcome::Responders
        } else {
            ProbeOutcome::NoResponders
        }
    }

    pub(super) fn access(&mut self, client: usize, bucket: Bucket, key: String, access: Access) -> Answer {
        let is_read = access == Access::Get;
        match self.try_access(client, bucket, key, access) {
            Err(error) if is_read => Answer::Read(Err(error)),
            Err(error) => Answer::Written(Err(error)),
            Ok(answer) => answer,
        }
    }

    fn try_access(&mut self, client: usize, bucket: Bucket, key: String, access: Access) -> Result<Answer, StoreError> {
        match self.clients[client].state {
            ConnectionState::Up => {}
            ConnectionState::Down => return Err(StoreError::Unavailable),
            ConnectionState::Closed => return Err(StoreError::Closed),
        }
        if !is_key(&key) {
            return Err(StoreError::BadKey { key: shortened(&key) });
        }
        let is_refused = match access {
            Access::Get => false,
            Access::Create(_) | Access::Update(..) => self.refuses(client, |rights| rights.may_write(bucket, &key)),
            Access::Delete(_) => self.refuses(client, |rights| rights.may_delete(bucket, &key)),
        };
        if is_refused {
            return Err(StoreError::Forbidden { key });
        }
        let there = self.buckets.entry(bucket).or_default().entries.get(&key);
        let revision = there.map(|(_, revision, _)| *revision);
        let (expected, value) = match access {
            Access::Get => {
                let entry = there.map(|(value, revision, _)| (value.clone(), *revision));
                return Ok(Answer::Read(Ok(entry.map(|(value, revision)| Entry { key, value, revision }))));
            }
            Access::Create(value) => (None, Some(value)),
            Access::Update(value, expected) => (Some(expected), Some(value)),
            Access::Delete(expected) => (Some(expected), None),
        };
        let bytes = key.len() + value.as_ref().map_or(0, Bytes::len);
        if bytes > MAX_PAYLOAD {
            return Err(StoreError::TooLarge { bytes, limit: MAX_PAYLOAD });
        }
        if revision != expected {
            return Err(StoreError::Conflict { key });
        }
        Ok(Answer::Written(Ok(match value {
            Some(value) => self.put(bucket, key, value),
            None => self.delete(bucket, key),
        })))
    }

    fn put(&mut self, bucket: Bucket, key: String, value: Bytes) -> Revision {
        let now = self.now;
        let records = self.buckets.entry(bucket).or_default();
        records.last_revision += 1;
        let revision = Revision(records.last_revision);
        records.entries.insert(key.clone(), (value.clone(), revision, now));
        self.report(bucket, Change::Put(Entry { key, value, revision }));
        revision
    }

    pub(super) fn delete(&mut self, bucket: Bucket, key: String) -> Revision {
        let records = self.buckets.entry(bucket).or_default();
        records.last_revision += 1;
        let revision = Revision(records.last_revision);
        records.entries.remove(&key);
        self.report(bucket, Change::Deleted { key, revision });
        revision
    }

    fn report(&mut self, bucket: Bucket, change: Change) {
        let history = &mut self.buckets.entry(bucket).or_default().history;
        if history.len() == MAX_HISTORY {
            history.pop_front();
        }
        history.push_back(change.clone());
        let watches = self.watches.iter().filter(|(_, watcher)| watcher.bucket == bucket);
        let reports: Vec<_> = watches
            .map(|(watch, watcher)| BrokerJob::Report {
                watch: *watch,
                breaks: self.clients[watcher.client].breaks,
                change: change.clone(),
            })
            .collect();
        self.jobs.extend(reports);
    }

    pub(super) fn copy(&self) -> StoreCopy {
        StoreCopy(self.buckets.clone())
    }

    /// Replaces the store by a copy, or by an empty one, as if its server had been restarted: all connections break.
    pub(super) fn replace(&mut self, by: Option<StoreCopy>) {
        self.missing = if by.is_none() { Bucket::ALL.into() } else { BTreeSet::new() };
        self.buckets = by.map_or_else(BTreeMap::new, |copy| copy.0);
        for connection in &mut self.clients {
            connection.disconnect();
        }
    }

    /// Does what an engine does first on a new connection: see [`floor`](crate::store::floor).
    pub(super) fn prepare(&mut self, client: usize) {
        let clock = if self.has_no_clock { 0 } else { self.now.since(Moment::START).as_micros() as u64 };
        let floor = &self.clients[client].floor;
        for bucket in std::mem::take(&mut self.missing) {
            self.buckets.insert(bucket, Records::beginning_with(floor.first(bucket, clock)));
        }
        let last = |bucket| Revision(self.buckets.get(&bucket).map_or(0, |records| records.last_revision));
        let last = Bucket::ALL.map(|bucket| (bucket, last(bucket))).into();
        let outdated = floor.outdated(&last);
        for bucket in &outdated {
            self.buckets.insert(*bucket, Records::beginning_with(floor.first(*bucket, clock)));
        }
        floor.emptied(&last);
        let concerned = self.watches.iter().filter(|(_, watcher)| outdated.contains(&watcher.bucket));
        let jobs: Vec<_> = concerned
            .map(|(watch, watcher)| {
                let breaks = self.clients[watcher.client].breaks;
                BrokerJob::Watch { watch: *watch, breaks, after: None }
            })
            .collect();
        self.jobs.extend(jobs);
    }

    /// Queues the first reports of a watch. Reports that are already queued for it are removed: the new ones include
    /// them.
    pub(super) fn begin_watch(&mut self, watch: u64, breaks: u64, after: Option<Revision>) {
        let Some(Watcher { client, bucket, .. }) = self.watches.get(&watch) else { return };
        if !self.arrives(*client, breaks) {
            return;
        }
        self.jobs.retain(|job| !matches!(job, BrokerJob::Report { watch: of, .. } if *of == watch));
        let records = self.buckets.entry(*bucket).or_default();
        let changes = records.changes_after(after).unwrap_or_else(|| records.snapshot());
        self.jobs.extend(changes.into_iter().map(|change| BrokerJob::Report { watch, breaks, change }));
    }

    /// Makes the watches of a client start over.
    pub(super) fn resync(&mut self, client: usize) {
        let breaks = self.clients[client].breaks;
        let watches = self.watches.iter().filter(|(_, watcher)| watcher.client == client);
        let jobs: Vec<_> = watches.map(|(watch, _)| BrokerJob::Watch { watch: *watch, breaks, after: None }).collect();
        self.jobs.extend(jobs);
    }
}

impl Connection {
    pub(super) fn new(rights: Option<Rights>) -> Self {
        let (queued, floor) = (BTreeMap::new(), Floor::default());
        Self { state: ConnectionState::Up, breaks: 0, queued, rights, refused: 0, floor }
    }

    /// Breaks the connection, if it is up.
    pub(super) fn disconnect(&mut self) {
        if self.state == ConnectionState::Up {
            self.state = ConnectionState::Down;
            self.breaks += 1;
        }
    }

    /// Records the revision that a change reports.
    pub(super) fn was_told(&self, bucket: Bucket, change: &Change) {
        if let Change::Put(Entry { revision, .. }) | Change::Deleted { revision, .. } | Change::Synced { revision } =
            change
        {
            self.floor.saw(bucket, *revision);
        }
    }

    /// Records the revision that an answer contains, if any.
    pub(super) fn was_answered(&self, bucket: Bucket, answer: &Answer) {
        if let Answer::Written(Ok(revision)) | Answer::Read(Ok(Some(Entry { revision, .. }))) = answer {
            self.floor.saw(bucket, *revision);
        }
    }
}

impl Records {
    /// Returns an empty table that begins with this revision.
    fn beginning_with(first: Revision) -> Self {
        Self { last_revision: first.0.saturating_sub(1), ..Self::default() }
    }

    /// Returns the changes after a revision; `None` if some of them are no longer kept.
    fn changes_after(&self, after: Option<Revision>) -> Option<Vec<Change>> {
        let after = after.filter(|after| after.0 <= self.last_revision)?;
        let missed = self.last_revision - after.0;
        // Each revision is one change.
        let known = self.history.len() as u64;
        (missed <= known).then(|| self.history.iter().skip((known - missed) as usize).cloned().collect())
    }

    fn snapshot(&self) -> Vec<Change> {
        let mut entries: Vec<_> = self
            .entries
            .iter()
            .map(|(key, (value, revision, _))| Entry { key: key.clone(), value: value.clone(), revision: *revision })
            .collect();
        entries.sort_by_key(|entry| entry.revision);
        let synced = Change::Synced { revision: Revision(self.last_revision) };
        [Change::Resync].into_iter().chain(entries.into_iter().map(Change::Put)).chain([synced]).collect()
    }
}
