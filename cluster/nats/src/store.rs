//! The store: preparation of its tables, and accesses to them.
//!
//! Each [`Bucket`] is a key-value bucket of JetStream, `<cluster>_nodes` for example: a stream `KV_<cluster>_nodes`
//! whose subjects are the keys. A deletion is a message too, a *tombstone*.
//!
//! # Properties of the tables
//! * **No direct reads** (`allow_direct`): any replica answers these, even one that lags. So all reads go to the
//!   leader.
//! * **[`HISTORY`](crate::table::HISTORY) revisions of each key** are kept, not only the last: the server sends a
//!   revision to watches some time after it was written, and a revision that was replaced in between would be gone.
//!   Then the watch would have to start over.
//! * **Leases** are deleted by their age. The server replaces the last revision with a marker for
//!   [`KEPT`](crate::table::KEPT), so that watches see the deletion.
//! * **A record has its writer in its subject**, `$KV.<cluster>_nodes.<name>.<id>.<writer>`, so that the server can
//!   check who may write it: see [`rights`]. A message of any writer other than the node itself is a tombstone,
//!   whatever it contains.
//! * **No foreign subjects**: a table that mirrors another, or is published on other subjects, is not used. Otherwise a
//!   node could make the server publish messages that the node itself is not allowed to publish.
//!
//! # A replaced store
//! The first revision of a table is the time of the clock, or a number above all revisions that this engine has seen of
//! the table if those are greater: `cluster/src/store/floor.rs` explains why. A new stream is created with that number
//! as its first. An older copy is **purged up to** the number at which it has to continue: that empties the copy, moves
//! it to that number, and does nothing if it is there already. If several engines do this at once, the last purge
//! removes the writes made since the first one, which are then repeated. After the purge, a tombstone is written to
//! [`MOVED`]: otherwise a watch that stays connected during the purge would notice it only with the next message.
//!
//! # Compare and set
//! The server compares the number of the key's last *message*, from any writer, which may be a tombstone. So a
//! deleted entry would match the revision of its deletion, and a new entry could not be created over a tombstone.
//! * **create** expects no message. If that fails, it reads the key, and expects the tombstone that it has found
//!   there.
//! * **update, delete** read the key first, and continue if it has an entry with the expected revision. The server
//!   compares once more, so a write in between is detected.

use crate::connection::LaneConnection;
use crate::problem::Problem;
use crate::requests::{self, Failure, OPERATION_HEADER, StoredMessage};
use crate::shared::{EngineShared, ProblemSource};
use crate::table::{StoreTable, Tombstone};
use async_nats::HeaderMap;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use postroom_cluster::__private::{Floor, is_key, owner, shortened};
use postroom_cluster::access::Access;
use postroom_cluster::engine::Lane;
use postroom_cluster::store::{Bucket, Entry, Revision, StoreError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, sleep, timeout_at};

/// The time limit of an access. It is shorter than a change of the store's leader may take. An access need not outlast
/// such a change: callers that wait for a lease ask again every half second, and are answered after the change.
const ACCESS_TIMEOUT: Duration = Duration::from_secs(5);

/// Size of a message to the store beyond its key and value: its headers and the prefix of its subject.
const OVERHEAD: usize = 1_024;

/// The pause before an access is repeated.
const ACCESS_PAUSE: Duration = Duration::from_millis(5);
/// The pause before the preparation of the tables is repeated. It doubles, up to the second value, only while an
/// operator has to act first: with so long a pause during a change of the store's leader, nodes would miss their
/// leases.
const PREPARE_PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(8)];
/// The interval at which the state of a table is asked for again: the same as for a lease.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// The key of the tombstone that follows a purge. No entry has it, and it is legal in each table.
const MOVED: &str = "=.=";

/// Prepares the tables and then makes them available. This happens again whenever a task
/// [doubts](EngineShared::doubt_store) that the store is still the same. The function runs once per connection, so an
/// engine never prepares the tables concurrently.
pub(crate) async fn keep_prepared(shared: &EngineShared, connected: &LaneConnection) {
    let mut store = shared.store.subscribe();
    loop {
        prepare(shared, connected).await;
        shared.store.send_replace(Some(connected.clone()));
        shared.set_problem(ProblemSource::Store, None);
        // Cannot fail: the sender lives as long as the engine.
        let _ = store.wait_for(Option::is_none).await;
    }
}

/// Prepares the tables, and repeats that until it succeeds.
async fn prepare(shared: &EngineShared, connected: &LaneConnection) {
    let [first, longest] = PREPARE_PAUSES;
    let mut pause = first;
    while let Err(problem) = prepare_tables(shared, connected).await {
        let is_obstacle = problem.is_obstacle();
        shared.set_problem(ProblemSource::Store, Some(problem));
        sleep(pause).await;
        pause = if is_obstacle { (pause * 2).min(longest) } else { first };
    }
}

/// Creates missing tables, and empties those that are older than what this engine had seen before it asked.
pub(crate) async fn prepare_tables(shared: &EngineShared, connected: &LaneConnection) -> Result<(), Problem> {
    let seen = shared.floor.copy();
    let mut last = BTreeMap::new();
    for bucket in Bucket::ALL {
        last.insert(bucket, Preparing::new(shared, connected, bucket).create().await?);
    }
    for bucket in seen.older(&last) {
        last.insert(bucket, Preparing::new(shared, connected, bucket).written().await?);
    }
    if seen.older(&last).is_empty() {
        return Ok(());
    }
    for bucket in seen.outdated(&last) {
        Preparing::new(shared, connected, bucket).empty().await?;
    }
    shared.floor.emptied(&last);
    Ok(())
}

/// A table that is being prepared.
struct Preparing<'a> {
    shared: &'a EngineShared,
    connected: &'a LaneConnection,
    bucket: Bucket,
    table: StoreTable,
    /// The first revision of the table if it is created or emptied.
    first: u64,
}

impl<'a> Preparing<'a> {
    fn new(shared: &'a EngineShared, connected: &'a LaneConnection, bucket: Bucket) -> Self {
        let (table, first) = (StoreTable::new(shared.settings.name(), bucket), shared.floor.first(bucket, clock()).0);
        Self { shared, connected, bucket, table, first }
    }

    async fn ask(&self, question: &str, payload: String) -> Result<Value, Failure> {
        let subject = format!("$JS.API.STREAM.{question}.{}", self.table.stream);
        requests::request(self.connected, subject, None, payload.into(), ACCESS_TIMEOUT).await
    }

    fn problem(&self, question: &str, failure: Failure) -> Problem {
        let Self { shared, bucket, table, .. } = self;
        match failure {
            Failure::NoResponders | Failure::NotEnabled => Problem::NoStore,
            Failure::NoReplicas(reason) => Problem::BucketRefused { bucket: *bucket, reason },
            Failure::Forbidden => {
                Problem::forbidden(&shared.settings, &format!("$JS.API.STREAM.{question}.{}", table.stream))
            }
            failure => Problem::StoreDown { reason: failure.text() },
        }
    }

    /// Creates the table if it is missing. Asks first whether it is, since a node may lack the permission to create it.
    /// Returns the last revision of the table.
    async fn create(&self) -> Result<Revision, Problem> {
        let wanted = self.table.configuration(&self.shared.settings);
        let mut answer = first_answer(ASK_AGAIN, || self.ask("INFO", String::new())).await;
        if answer == Err(Failure::NoStream) {
            let mut new = wanted.clone();
            new["first_seq"] = self.first.into();
            answer = match self.ask("CREATE", new.to_string()).await {
                // Another node was quicker, and made the table begin at its own clock.
                Err(Failure::Exists) => self.ask("INFO", String::new()).await,
                answer => answer,
            };
        }
        let answer = answer.map_err(|failure| self.problem("INFO", failure))?;
        compare(self.bucket, &self.table, &wanted, &answer["config"])?;
        let last = answer["state"]["last_seq"].as_u64();
        last.map(Revision).ok_or_else(|| self.problem("INFO", Failure::NoAnswer))
    }

    /// Returns the last revision, which it determines by writing a tombstone under a key that no entry has.
    async fn written(self) -> Result<Revision, Problem> {
        let own = self.shared.settings.node_name();
        let key = match self.bucket {
            // A node may write only its own leases.
            Bucket::Leases if !own.is_empty() => format!("{own}.="),
            _ => MOVED.into(),
        };
        let asked = KeyAccess::of(self.shared, self.connected, self.table, &key);
        let revision = asked.create(None).await.map_err(|error| match error {
            StoreError::Forbidden { .. } => Problem::forbidden(&self.shared.settings, &asked.table.subject(&key, own)),
            error => Problem::StoreDown { reason: error.to_string() },
        })?;
        if self.bucket != Bucket::Leases {
            let KeyAccess { table, .. } = asked;
            self.shared.bury(Tombstone { table, key, revision, written: Instant::now() });
        }
        Ok(Revision(revision.0.saturating_sub(1)))
    }

    async fn empty(self) -> Result<(), Problem> {
        let question = json!({ "seq": self.first }).to_string();
        self.ask("PURGE", question).await.map_err(|failure| self.problem("PURGE", failure))?;
        // If this write is lost, watches notice the purge with the next message.
        if let Ok(revision) = KeyAccess::of(self.shared, self.connected, self.table, MOVED).put(None, 0).await {
            let table = StoreTable::new(self.shared.settings.name(), self.bucket);
            self.shared.bury(Tombstone { table, key: MOVED.into(), revision, written: Instant::now() });
        }
        Ok(())
    }
}

/// Returns the time since 1970, in microseconds; zero if the clock is earlier.
fn clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Asks, and asks again while there is no answer. A question that arrives while the store has no leader is never
/// answered, even once the store has a leader again. If the next question waited until the first one had timed out, a
/// node whose server has ended would miss its lease.
async fn first_answer<T, F: Future<Output = T>>(again: Duration, ask: impl Fn() -> F) -> T {
    let mut questions = FuturesUnordered::new();
    loop {
        questions.push(ask());
        tokio::select! {
            Some(answer) = questions.next() => return answer,
            () = sleep(again) => {}
        }
    }
}

/// Checks the settings that the guarantees of the store depend on.
fn compare(bucket: Bucket, table: &StoreTable, wanted: &Value, found: &Value) -> Result<(), Problem> {
    let fields = [
        "num_replicas",
        "allow_direct",
        "allow_rollup_hdrs",
        "max_age",
        "max_msgs",
        "max_msgs_per_subject",
        "subject_delete_marker_ttl",
        "subjects",
    ];
    // With these settings, messages of the table could appear elsewhere, or messages from elsewhere in the table.
    let foreign = ["republish", "mirror", "sources", "subject_transform"];
    for field in fields.into_iter().chain(foreign) {
        let differs = match &wanted[field] {
            Value::Null if foreign.contains(&field) => found.get(field).is_some_and(|found| !found.is_null()),
            // The server may omit fields that are zero or false, and reports a number for those without a limit.
            Value::Null => false,
            Value::Bool(false) => found[field].as_bool().unwrap_or(false),
            Value::Number(number) if number.as_u64() == Some(0) => found[field].as_u64().unwrap_or(0) != 0,
            value => *value != found[field],
        };
        if differs {
            let (found, wanted) = (found[field].to_string(), wanted[field].to_string());
            return Err(Problem::BucketDiffers { bucket, stream: table.stream.clone(), field, found, wanted });
        }
    }
    Ok(())
}

/// Performs an access that is not a read.
pub(crate) async fn write(
    shared: &EngineShared,
    bucket: Bucket,
    key: &str,
    access: Access,
) -> Result<Revision, StoreError> {
    let asked = KeyAccess::new(shared, bucket, key, &access).await?;
    let seen = shared.floor.copy();
    let is_deletion = matches!(access, Access::Delete(_));
    let revision = match access {
        Access::Create(value) => asked.create(Some(value)).await?,
        Access::Update(value, expected) => asked.replace(Some(value), expected).await?,
        Access::Delete(expected) => asked.replace(None, expected).await?,
        Access::Get => unreachable!("a read is none"),
    };
    if bucket == Bucket::Leases {
        return Ok(revision);
    }
    if seen.is_above(bucket, Revision(revision.0.saturating_sub(1))) {
        // The store that assigned this revision is not the one that was seen before. It is emptied next.
        shared.doubt_store(&asked.connected);
        return Err(StoreError::Unknown);
    }
    if is_deletion {
        let KeyAccess { table, .. } = asked;
        shared.bury(Tombstone { table, key: key.into(), revision, written: Instant::now() });
    }
    Ok(revision)
}

/// Reads an entry.
pub(crate) async fn read(shared: &EngineShared, bucket: Bucket, key: &str) -> Result<Option<Entry>, StoreError> {
    let asked = KeyAccess::new(shared, bucket, key, &Access::Get).await?;
    let StoredMessage { revision, value: Some(value) } = asked.last().await? else { return Ok(None) };
    Ok(Some(Entry { key: key.into(), value, revision: Revision(revision) }))
}

/// An access to one key, with a connection.
struct KeyAccess<'a> {
    connected: LaneConnection,
    floor: &'a Floor,
    table: StoreTable,
    /// The name of this node; empty if it has none.
    own: &'a str,
    key: &'a str,
    limit: usize,
    deadline: Instant,
}

impl<'a> KeyAccess<'a> {
    async fn new(shared: &'a EngineShared, bucket: Bucket, key: &'a str, access: &Access) -> Result<Self, StoreError> {
        if !is_key(key) {
            return Err(StoreError::BadKey { key: shortened(key) });
        }
        let value = match access {
            Access::Create(value) | Access::Update(value, _) => value.len(),
            Access::Delete(_) | Access::Get => 0,
        };
        let limit = shared.max_payload.load(Ordering::Relaxed).saturating_sub(OVERHEAD);
        let bytes = key.len() + value;
        if bytes > limit {
            return Err(StoreError::TooLarge { bytes, limit });
        }
        if !shared.lane(Lane::Control).is_connected() {
            return Err(StoreError::Unavailable);
        }
        let deadline = Instant::now() + ACCESS_TIMEOUT;
        let mut store = shared.store.subscribe();
        let ready = timeout_at(deadline, store.wait_for(Option::is_some)).await;
        let connected = match ready {
            Ok(Ok(connected)) => connected.clone(),
            Ok(Err(_)) | Err(_) => None,
        };
        let connected = connected.ok_or(StoreError::Unavailable)?;
        let table = StoreTable::new(shared.settings.name(), bucket);
        Ok(Self { deadline, ..Self::of(shared, &connected, table, key) })
    }

    fn of(shared: &'a EngineShared, connected: &LaneConnection, table: StoreTable, key: &'a str) -> Self {
        let limit = shared.max_payload.load(Ordering::Relaxed).saturating_sub(OVERHEAD);
        let (own, deadline) = (shared.settings.node_name(), Instant::now() + ACCESS_TIMEOUT);
        Self { connected: connected.clone(), floor: &shared.floor, table, own, key, limit, deadline }
    }

    fn saw(&self, revision: u64) -> Revision {
        self.floor.saw(self.table.bucket, Revision(revision));
        Revision(revision)
    }

    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn conflict(&self) -> StoreError {
        StoreError::Conflict { key: self.key.into() }
    }

    /// Reads the last message of the key. A failed read has done nothing, so any failure is reported as unavailable.
    async fn last(&self) -> Result<StoredMessage, StoreError> {
        let pattern = self.table.pattern(self.key);
        match requests::last(&self.connected, &self.table, &pattern, self.time_left()).await {
            Ok(stored) => {
                self.saw(stored.revision);
                Ok(stored)
            }
            Err(Failure::NoMessage) => Ok(StoredMessage { revision: 0, value: None }),
            Err(_) => Err(StoreError::Unavailable),
        }
    }

    /// Writes a value or a tombstone after revision `expected`. Zero means that the key has no message yet.
    async fn put(&self, value: Option<Bytes>, expected: u64) -> Result<Revision, StoreError> {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
        let pattern = self.table.pattern(self.key);
        // Only the owner of a key may write a value; the server refuses others. A tombstone has the name of its
        // writer.
        let owner = owner(self.key);
        let writer = if value.is_some() || self.own.is_empty() { owner } else { self.own };
        let subject = self.table.subject(self.key, writer);
        if pattern != subject {
            headers.insert("Nats-Expected-Last-Subject-Sequence-Subject", pattern);
        }
        if value.is_none() {
            headers.insert(OPERATION_HEADER, "DEL");
        }
        let value = value.unwrap_or_default();
        let bytes = self.key.len() + value.len();
        let answer = requests::request(&self.connected, subject, Some(headers), value, self.time_left()).await;
        match answer {
            Ok(answer) => answer["seq"].as_u64().map(|revision| self.saw(revision)).ok_or(StoreError::Unknown),
            Err(Failure::WrongRevision) => Err(self.conflict()),
            Err(Failure::NoAnswer) => Err(StoreError::Unknown),
            Err(Failure::TooLarge) => Err(StoreError::TooLarge { bytes, limit: self.limit }),
            Err(Failure::Forbidden) => Err(StoreError::Forbidden { key: self.key.into() }),
            Err(Failure::Full) => Err(StoreError::Full { key: self.key.into() }),
            Err(_) => Err(StoreError::Unavailable),
        }
    }

    /// Writes a value if the key has none. A tombstone is written whether or not the key has a value.
    async fn create(&self, value: Option<Bytes>) -> Result<Revision, StoreError> {
        let mut expected = 0;
        loop {
            match self.put(value.clone(), expected).await {
                Err(StoreError::Conflict { .. }) => {}
                result => return result,
            }
            let there = self.last().await?;
            if there.value.is_some() && value.is_some() {
                return Err(self.conflict());
            }
            // There is another tombstone, or no message. If the revision is still the expected one, another write has
            // been accepted but is not visible yet.
            if there.revision == expected {
                sleep(ACCESS_PAUSE).await;
            }
            expected = there.revision;
            if self.time_left().is_zero() {
                return Err(StoreError::Unavailable);
            }
        }
    }

    async fn replace(&self, value: Option<Bytes>, Revision(expected): Revision) -> Result<Revision, StoreError> {
        let there = self.last().await?;
        if there.value.is_none() || there.revision != expected {
            return Err(self.conflict());
        }
        self.put(value, expected).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nats;

    /// Catches: a question that is asked while the store elects its leader, and is repeated only after it has timed
    /// out.
    #[test]
    fn a_question_that_has_no_answer_is_asked_again_at_once() {
        let asked = std::cell::Cell::new(0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let ask = || {
            asked.set(asked.get() + 1);
            let is_lost = asked.get() == 1;
            async move { if is_lost { std::future::pending().await } else { "an answer" } }
        };
        let answer = async { tokio::time::timeout(Duration::from_secs(60), first_answer(Duration::ZERO, ask)).await };
        assert_eq!(runtime.block_on(answer), Ok("an answer"));
        assert_eq!(asked.get(), 2);
    }

    #[test]
    fn a_table_that_is_not_as_it_must_be_is_refused() {
        let table = StoreTable::new("bank", Bucket::Leases);
        let wanted = table.configuration(&Nats::at("localhost"));
        assert_eq!(compare(Bucket::Leases, &table, &wanted, &wanted), Ok(()));
        for (field, value) in [
            ("num_replicas", json!(3)),
            ("allow_direct", json!(true)),
            ("max_age", json!(0)),
            ("max_msgs_per_subject", json!(1)),
            ("subject_delete_marker_ttl", Value::Null),
            ("subjects", json!(["x"])),
            ("republish", json!({ "src": ">", "dest": "pr1.bank.n.eu-1.7f3a.d.eu-2.21" })),
            ("sources", json!([{ "name": "other" }])),
        ] {
            let mut found = wanted.clone();
            found[field] = value;
            let problem = compare(Bucket::Leases, &table, &wanted, &found).unwrap_err();
            assert!(matches!(&problem, Problem::BucketDiffers { field: of, .. } if *of == field), "{problem}");
            assert!(problem.is_lasting() && problem.to_string().contains("KV_bank_leases"), "{problem}");
        }
        // Only leases expire.
        let wanted = StoreTable::new("bank", Bucket::Names).configuration(&Nats::at("localhost"));
        let mut found = wanted.clone();
        found["max_age"] = json!(5);
        assert!(compare(Bucket::Names, &table, &wanted, &found).is_err());
        let absent = ["max_age", "allow_direct", "allow_rollup_hdrs"];
        found.as_object_mut().unwrap().retain(|field, _| !absent.contains(&field.as_str()));
        assert_eq!(compare(Bucket::Names, &table, &wanted, &found), Ok(()));
    }
}
