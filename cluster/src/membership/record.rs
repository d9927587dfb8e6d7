//! A node's record in the store, under the key `<name>.<id>`.

use crate::subject::{Identity, is_name};
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The maximum length of a node's name.
pub const MAX_NODE_NAME: usize = crate::subject::LONGEST_NAME;

/// The record format that this crate writes.
const FORM: u8 = 1;

/// The record of a node.
///
/// ```
/// use postroom_cluster::membership::Record;
///
/// let record = Record::new("eu-1", 0x5eed)?;
/// assert_eq!(Record::decode(record.encode()), Ok(record.clone()));
/// assert_eq!(record.name(), "eu-1");
/// # Ok::<(), postroom_cluster::membership::RecordError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    name: String,
    run: u64,
}

impl Record {
    /// Returns the record of a node with this name. `run` is drawn anew for each attempt to join: it distinguishes the
    /// node's own record from that of another node which has drawn the same ID.
    ///
    /// Names are for people and for placement: two nodes may have the same name, as happens for a while when a node
    /// restarts.
    ///
    /// # Errors
    /// If the name is empty or too long, or cannot be a part of a subject.
    pub fn new(name: impl Into<String>, run: u64) -> Result<Self, RecordError> {
        let name = name.into();
        match name.len() {
            0 => Err(RecordError::NoName),
            bytes if bytes > MAX_NODE_NAME => Err(RecordError::NameTooLong { bytes }),
            _ if !is_name(&name) => Err(RecordError::BadName { name }),
            _ => Ok(Self { name, run }),
        }
    }

    /// Returns the node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Encodes the record.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(9 + self.name.len());
        out.put_u8(FORM);
        out.put_u64(self.run);
        out.put_slice(self.name.as_bytes());
        out.freeze()
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// If the bytes are not a record.
    pub fn decode(mut bytes: Bytes) -> Result<Self, RecordError> {
        let form = bytes.try_get_u8().map_err(|_| RecordError::Truncated)?;
        if form != FORM {
            return Err(RecordError::Form { form });
        }
        let run = bytes.try_get_u64().map_err(|_| RecordError::Truncated)?;
        if bytes.len() > MAX_NODE_NAME {
            return Err(RecordError::NameTooLong { bytes: bytes.len() });
        }
        Self::new(std::str::from_utf8(&bytes).map_err(|_| RecordError::NotText)?, run)
    }
}

/// Decodes the record under a key. Its name must be that of the key: only the node with that name may write the key.
pub(super) fn read(identity: &Identity, bytes: Bytes) -> Result<Record, RecordError> {
    let record = Record::decode(bytes)?;
    match record.name == identity.name {
        true => Ok(record),
        false => Err(RecordError::OtherName { name: record.name, key: identity.to_string() }),
    }
}

/// Why a record is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The node has no name.
    #[error("the name of a node is empty; use at least one byte")]
    NoName,
    /// Its name is too long.
    #[error("the name of a node has {bytes} bytes; use at most {MAX_NODE_NAME}")]
    NameTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The name cannot be a part of a subject.
    #[error("`{name}` cannot name a node; use letters, digits, `-` and `_`, at most {MAX_NODE_NAME}")]
    BadName {
        /// The name.
        name: String,
    },
    /// The record has another format.
    #[error("a record has form {form}, and this node reads {FORM}; run one version of postroom-cluster, or upgrade it")]
    Form {
        /// Its format.
        form: u8,
    },
    /// The record is too short.
    #[error("a record is too short; check who may write to the bucket of nodes")]
    Truncated,
    /// The name is not UTF-8.
    #[error("a record's name is not UTF-8; check who may write to the bucket of nodes")]
    NotText,
    /// The key does not identify a node.
    #[error("a record's key is not the name and the ID of a node; check who may write to the bucket of nodes")]
    Key,
    /// The names in the record and in its key differ.
    #[error("the record under `{key}` says that it is of `{name}`; check who may write to the bucket of nodes")]
    OtherName {
        /// The name in the record.
        name: String,
        /// Its key.
        key: String,
    },
    /// The ID belongs to another node.
    #[error("the record under `{key}` claims the ID of `{holder}`, and is ignored; look into what that node does")]
    Claimed {
        /// Its key.
        key: String,
        /// The name of the node that the ID belongs to.
        holder: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_record_is_refused() {
        let whole = Record::new("eu-1", 7).unwrap().encode();
        for length in 0..9 {
            assert_eq!(Record::decode(whole.slice(..length)), Err(RecordError::Truncated));
        }
        assert_eq!(Record::decode(whole.slice(..9)), Err(RecordError::NoName));
        assert_eq!(Record::decode(Bytes::from_static(&[2; 20])), Err(RecordError::Form { form: 2 }));
        assert_eq!(Record::decode(Bytes::from_static(b"\x01........\xff")), Err(RecordError::NotText));
        let name = "x".repeat(MAX_NODE_NAME + 1);
        assert_eq!(Record::new(name.clone(), 0), Err(RecordError::NameTooLong { bytes: 65 }));
        let long = [&whole[..9], name.as_bytes()].concat();
        assert_eq!(Record::decode(long.into()), Err(RecordError::NameTooLong { bytes: 65 }));
        for name in ["a.b", "a b", "*", ">", "\u{fc}", "a/b"] {
            assert_eq!(Record::new(name, 0), Err(RecordError::BadName { name: name.into() }));
            let bad = [&whole[..9], name.as_bytes()].concat();
            assert_eq!(Record::decode(bad.into()), Err(RecordError::BadName { name: name.into() }));
        }
    }

    #[test]
    fn a_record_says_the_name_of_its_key() {
        let record = Record::new("eu-1", 7).unwrap();
        let [own, other] = ["eu-1.7f3a", "eu-2.7f3a"].map(|key| Identity::parse(key).unwrap());
        assert_eq!(read(&own, record.encode()), Ok(record.clone()));
        let error = RecordError::OtherName { name: "eu-1".into(), key: "eu-2.7f3a".into() };
        assert_eq!(read(&other, record.encode()), Err(error));
    }
}
