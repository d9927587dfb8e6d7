//! The data that two nodes compare at the start of a session: protocol versions, and the messages that each can decode.

use std::sync::Arc;

/// The maximum number of bytes that the entries of a [`Table`] take in a frame.
pub const MAX_TABLE: usize = 64 << 10;
/// The maximum length of a name in a [`Table`].
pub const MAX_NAME: usize = 1_024;

/// The minor versions of the protocol that a node speaks, within one major version.
///
/// Two nodes use the smaller of their newest minor versions, if both still speak it.
///
/// ```
/// use postroom_cluster::frame::{VersionError, Versions};
///
/// let old = Versions { minor: 3, oldest_minor: 1 };
/// let new = Versions { minor: 7, oldest_minor: 2 };
/// assert_eq!(old.agree(new), Ok(3));
///
/// let newer = Versions { minor: 9, oldest_minor: 4 };
/// assert_eq!(old.agree(newer), Err(VersionError::Minor { here: old, there: newer }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Versions {
    /// The newest minor version.
    pub minor: u8,
    /// The oldest minor version.
    pub oldest_minor: u8,
}

impl Versions {
    /// The major version. Nodes of different major versions do not understand each other.
    pub const MAJOR: u8 = 1;
    /// The versions that this crate speaks.
    pub const CURRENT: Self = Self { minor: 0, oldest_minor: 0 };

    /// Returns the minor version for sessions between a node of these versions and one of `theirs`.
    ///
    /// # Errors
    /// If one node no longer speaks the minor version of the other.
    pub fn agree(self, theirs: Self) -> Result<u8, VersionError> {
        let minor = self.minor.min(theirs.minor);
        if minor < self.oldest_minor.max(theirs.oldest_minor) {
            return Err(VersionError::Minor { here: self, there: theirs });
        }
        Ok(minor)
    }
}

/// Two nodes have no version of the protocol in common.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The major versions differ.
    #[error(
        "the peer speaks version {there} of the protocol, and this node version {here}; run one major version of \
         postroom-cluster in a cluster"
    )]
    Major {
        /// The major version of this node.
        here: u8,
        /// The major version of the peer.
        there: u8,
    },
    /// One node no longer speaks the minor version of the other.
    #[error(
        "the peer speaks versions {}.{} to {}.{} of the protocol, and this node {}.{} to {}.{}; upgrade the older \
         by way of a release that speaks both",
        Versions::MAJOR, there.oldest_minor, Versions::MAJOR, there.minor,
        Versions::MAJOR, here.oldest_minor, Versions::MAJOR, here.minor
    )]
    Minor {
        /// The versions of this node.
        here: Versions,
        /// The versions of the peer.
        there: Versions,
    },
}

/// The messages that a node can decode, by name, with the hash of their fields' names and types. Cheap to clone.
///
/// ```
/// use postroom_cluster::frame::Table;
///
/// let table = Table::new([("bank::Account::deposit", 0x5eed), ("bank::Account::close", 7)])?;
/// assert_eq!(table.hash("bank::Account::close"), Some(7));
/// assert_eq!(table.hash("bank::Account::open"), None);
/// # Ok::<(), postroom_cluster::frame::TableError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Sorted by name.
    entries: Arc<[(Box<str>, u64)]>,
}

impl Table {
    /// Returns the table of these messages, which may be in any order.
    ///
    /// # Errors
    /// If a name occurs twice, is empty or too long, or the table is too long.
    pub fn new<N: Into<Box<str>>>(messages: impl IntoIterator<Item = (N, u64)>) -> Result<Self, TableError> {
        let mut entries: Vec<(Box<str>, u64)> = messages.into_iter().map(|(name, hash)| (name.into(), hash)).collect();
        entries.sort();
        Self::from_sorted(entries)
    }

    pub(super) fn from_sorted(entries: Vec<(Box<str>, u64)>) -> Result<Self, TableError> {
        for (name, _) in &entries {
            match name.len() {
                0 => return Err(TableError::Empty),
                bytes if bytes > MAX_NAME => return Err(TableError::NameTooLong { bytes }),
                _ => {}
            }
        }
        for pair in entries.windows(2) {
            if pair[0].0 == pair[1].0 {
                return Err(TableError::Twice { name: pair[0].0.clone() });
            }
            if pair[0].0 > pair[1].0 {
                return Err(TableError::Order);
            }
        }
        let table = Self { entries: entries.into() };
        match table.encoded_len() {
            bytes if bytes > MAX_TABLE => Err(TableError::TooLong { bytes, names: table.len() }),
            _ => Ok(table),
        }
    }

    /// Returns the hash of a message; `None` if it is not in the table.
    pub fn hash(&self, name: &str) -> Option<u64> {
        let at = self.entries.binary_search_by(|(entry, _)| (**entry).cmp(name)).ok()?;
        Some(self.entries[at].1)
    }

    /// Returns names and hashes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.entries.iter().map(|(name, hash)| (&**name, *hash))
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns how many bytes the entries take in a frame. An entry takes at least eleven, so the number of entries of
    /// a table within the limit fits into sixteen bits.
    pub(super) fn encoded_len(&self) -> usize {
        self.entries.iter().map(|(name, _)| 2 + name.len() + 8).sum()
    }
}

/// Why a list of messages is not a valid table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The list is too long for a frame.
    #[error("{names} messages take {bytes} bytes in the handshake, of {MAX_TABLE}; export fewer, or name them shorter")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The number of messages.
        names: usize,
    },
    /// A name is too long.
    #[error("the name of a message has {bytes} bytes; use at most {MAX_NAME}")]
    NameTooLong {
        /// Its length.
        bytes: usize,
    },
    /// A name is empty.
    #[error("the name of a message is empty; use at least one byte")]
    Empty,
    /// Two messages have the same name.
    #[error("two messages are called `{name}`; give one of them another name")]
    Twice {
        /// The name.
        name: Box<str>,
    },
    /// A peer's table is not sorted.
    #[error("the peer's table of messages is not sorted; check who may publish to this node")]
    Order,
    /// A peer's table has a name that is not UTF-8.
    #[error("a name in the peer's table of messages is not UTF-8; check who may publish to this node")]
    NotText,
}
