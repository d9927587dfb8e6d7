//! The tables of the store: their streams, the subjects of their keys, and their configuration at the server.

use crate::settings::Nats;
use postroom_cluster::__private::{owner, table, write_subject};
use postroom_cluster::store::{Bucket, Revision};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Number of revisions of a key that are kept: the most that NATS' own tools allow. A watch may lag behind by that
/// many.
pub(crate) const HISTORY: u64 = 64;

/// Number of messages that a table may have per entry: the entry's most recent revisions, and tombstones.
const PER_ENTRY: u64 = 4;

/// The time for which a tombstone is kept.
pub(crate) const KEPT: Duration = Duration::from_secs(60);

/// The stream and the subjects of a bucket.
pub(crate) struct StoreTable {
    pub(crate) stream: String,
    /// The prefix of the subjects of keys.
    pub(crate) prefix: String,
    cluster: String,
    pub(crate) bucket: Bucket,
}

impl StoreTable {
    pub(crate) fn new(cluster: &str, bucket: Bucket) -> Self {
        let name = table(cluster, bucket);
        let (stream, prefix) = (format!("KV_{name}"), format!("$KV.{name}."));
        Self { stream, prefix, cluster: cluster.into(), bucket }
    }

    /// Returns the subject on which the node named `writer` writes `key`.
    pub(crate) fn subject(&self, key: &str, writer: &str) -> String {
        write_subject(&self.cluster, self.bucket, key, writer)
    }

    /// Returns the pattern of all subjects on which a key can be written.
    pub(crate) fn pattern(&self, key: &str) -> String {
        self.subject(key, "*")
    }

    /// Returns the key of a subject, and whether a message on that subject can be a value. If it cannot, the message is
    /// a removal.
    pub(crate) fn key<'s>(&self, subject: &'s str) -> Option<(&'s str, bool)> {
        let key = subject.strip_prefix(&self.prefix)?;
        match self.bucket {
            Bucket::Nodes => {
                let (key, writer) = key.rsplit_once('.')?;
                Some((key, owner(key) == writer))
            }
            Bucket::Leases | Bucket::Names | Bucket::Groups => Some((key, true)),
        }
    }

    pub(crate) fn configuration(&self, settings: &Nats) -> Value {
        let bucket = self.bucket;
        let nanos = |time: Duration| time.as_nanos() as u64;
        let mut configuration = json!({
            "name": self.stream,
            "description": "a table of a Postroom cluster",
            "subjects": [format!("{}>", self.prefix)],
            "retention": "limits",
            "storage": "file",
            "discard": "new",
            "max_msgs": settings.limit(bucket) * PER_ENTRY,
            "max_msgs_per_subject": HISTORY,
            "max_age": 0,
            "num_replicas": settings.replica_count(),
            "allow_direct": false,
            "deny_delete": true,
            "allow_rollup_hdrs": false,
        });
        if bucket == Bucket::Leases {
            configuration["max_age"] = nanos(Bucket::LEASE_TTL).into();
            configuration["allow_msg_ttl"] = true.into();
            configuration["subject_delete_marker_ttl"] = nanos(KEPT).into();
            // The server needs this to write its markers.
            configuration["allow_rollup_hdrs"] = true.into();
        }
        configuration
    }
}

/// A deletion that the server need not keep forever: see [`tombstones`](crate::tombstones).
pub(crate) struct Tombstone {
    pub(crate) table: StoreTable,
    pub(crate) key: String,
    pub(crate) revision: Revision,
    pub(crate) written: Instant,
}
