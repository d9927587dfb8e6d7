//! The tables of the store: their streams, the subjects of their keys, and how the server is to keep them.

use super::settings::Nats;
use crate::engine::{Bucket, Revision};
use crate::rights;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// How many revisions of a key are kept: the most that NATS' own tools allow. So much can a watch lag behind.
pub(super) const HISTORY: u64 = 64;

/// How many messages a table keeps for each entry that it may have: its last revisions, and tombstones.
const PER_ENTRY: u64 = 4;

/// How long a tombstone stays.
pub(super) const KEPT: Duration = Duration::from_secs(60);

/// The stream and the subjects of a bucket.
pub(super) struct StoreTable {
    pub(super) stream: String,
    /// What the subjects of keys begin with.
    pub(super) prefix: String,
    cluster: String,
    pub(super) bucket: Bucket,
}

impl StoreTable {
    pub(super) fn new(cluster: &str, bucket: Bucket) -> Self {
        let name = rights::table(cluster, bucket);
        let (stream, prefix) = (format!("KV_{name}"), format!("$KV.{name}."));
        Self { stream, prefix, cluster: cluster.into(), bucket }
    }

    /// Returns the subject on which the node named `writer` writes `key`.
    pub(super) fn subject(&self, key: &str, writer: &str) -> String {
        rights::write_subject(&self.cluster, self.bucket, key, writer)
    }

    /// The pattern of the subjects that have a key.
    pub(super) fn pattern(&self, key: &str) -> String {
        self.subject(key, "*")
    }

    /// Returns the key of a subject, and whether a message there can be a value; it is a removal otherwise.
    pub(super) fn key<'s>(&self, subject: &'s str) -> Option<(&'s str, bool)> {
        let key = subject.strip_prefix(&self.prefix)?;
        match self.bucket {
            Bucket::Nodes => {
                let (key, writer) = key.rsplit_once('.')?;
                Some((key, rights::owner(key) == writer))
            }
            Bucket::Leases | Bucket::Names | Bucket::Groups => Some((key, true)),
        }
    }

    pub(super) fn configuration(&self, settings: &Nats) -> Value {
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
            // The server writes its markers in this way.
            configuration["allow_rollup_hdrs"] = true.into();
        }
        configuration
    }
}

/// A deletion that the server need not keep for ever: see [`tombstones`](super::tombstones).
pub(super) struct Tombstone {
    pub(super) table: StoreTable,
    pub(super) key: String,
    pub(super) revision: Revision,
    pub(super) written: Instant,
}
