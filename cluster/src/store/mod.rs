//! The store that all nodes of a cluster agree on: its tables, its entries, and what a watch reports of them.
//!
//! Each kind of entry has a table of its own, a [`Bucket`]. The [contract](crate::engine) of engines says what the
//! store promises; `floor` keeps revisions growing if the store is lost.

pub(crate) mod floor;

use bytes::Bytes;
use std::fmt;

/// A table of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bucket {
    /// One record for each node that has joined.
    Nodes,
    /// One lease for each node. The broker deletes a lease that has not been written for
    /// [`LEASE_TTL`](Self::LEASE_TTL).
    Leases,
    /// The names of the cluster, each held by one process.
    Names,
    /// The number of members of each group on each node.
    Groups,
}

impl Bucket {
    /// All tables.
    pub const ALL: [Self; 4] = [Self::Nodes, Self::Leases, Self::Names, Self::Groups];

    /// The age at which the broker deletes an entry of [`Bucket::Leases`], measured from its last write on the
    /// broker's clock.
    pub const LEASE_TTL: std::time::Duration = std::time::Duration::from_secs(15);
}

/// The number of a write: larger than those of all earlier writes to the same bucket. It is not a count of writes: the
/// numbers of a table begin at a clock reading of the node that created the table.
///
/// The revision of the entry that made a process the holder of a name is its fencing token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An entry of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Bytes,
    /// The number of the write that stored the value.
    pub revision: Revision,
}

/// A report of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A snapshot follows, up to [`Synced`](Self::Synced): changes may have been missed. If the snapshot lacks a key,
    /// all of the key's revisions up to that of `Synced` are gone. A later revision, written while the snapshot was
    /// taken, is reported after the snapshot.
    Resync,
    /// An entry was written.
    Put(Entry),
    /// An entry was deleted, or expired.
    Deleted {
        /// The key.
        key: String,
        /// The number of the deletion.
        revision: Revision,
    },
    /// The snapshot is complete; later changes are new.
    Synced {
        /// The last revision that the snapshot covers.
        revision: Revision,
    },
}

/// Why the store did not execute a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The key does not have the expected revision. Nothing was written, unless an earlier attempt of the same caller
    /// succeeded and its answer was lost.
    #[error("`{key}` was written by another, or by an earlier attempt; read it again before drawing a conclusion")]
    Conflict {
        /// The key.
        key: String,
    },
    /// The store has no leader, or cannot be reached. Nothing was written.
    #[error("the store cannot be reached, and has done nothing; try again, and check the broker if it persists")]
    Unavailable,
    /// There was no answer in time.
    #[error("the store did not answer; it may have written or not: read the key again")]
    Unknown,
    /// The key or the value is longer than the store accepts.
    #[error("{bytes} bytes under one key exceed the store's limit of {limit}; store less under each key")]
    TooLarge {
        /// The total length of key and value.
        bytes: usize,
        /// The limit of the store.
        limit: usize,
    },
    /// The key is not valid.
    #[error("`{key}` is not a key; use letters, digits, `-`, `_`, `=` and `/`, with single dots between them")]
    BadKey {
        /// The key, shortened if it is long.
        key: String,
    },
    /// The broker does not let this node write the key. Nothing was written.
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

/// A callback that receives the changes of a bucket.
pub type OnChange = Box<dyn FnMut(Change) + Send>;
/// A callback that receives the revision of a write or of a deletion.
pub type OnWrite = Box<dyn FnOnce(Result<Revision, StoreError>) + Send>;
/// A callback that receives an entry; `None` if the store has none under the key.
pub type OnRead = Box<dyn FnOnce(Result<Option<Entry>, StoreError>) + Send>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let conflict = StoreError::Conflict { key: "node.7f".into() };
        assert!(conflict.to_string().contains("`node.7f`") && conflict.to_string().contains("read it again"));
    }
}
