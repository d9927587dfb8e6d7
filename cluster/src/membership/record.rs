//! What a node says of itself in the store.

use super::MAX_NODE_NAME;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use postroom::NodeId;

/// The form of a record that this crate writes.
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
    /// Returns the record of a node with this name. `run` is drawn anew for each attempt to join: it tells the node's
    /// own record from that of another which has drawn the same ID.
    ///
    /// Names are for people and for placement: two nodes may have the same, as a node that restarts does for a while.
    ///
    /// # Errors
    /// If the name is empty or too long.
    pub fn new(name: impl Into<String>, run: u64) -> Result<Self, RecordError> {
        let name = name.into();
        match name.len() {
            0 => Err(RecordError::NoName),
            bytes if bytes > MAX_NODE_NAME => Err(RecordError::NameTooLong { bytes }),
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
    /// If it is none.
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

/// Returns the key of a node's record.
pub(super) fn key(node: NodeId) -> String {
    node.to_string()
}

/// Returns the node whose record has this key; only the key that [`key`] gives is one.
pub(crate) fn node(text: &str) -> Result<NodeId, RecordError> {
    let node = u64::from_str_radix(text, 16).ok().and_then(NodeId::new);
    node.filter(|&node| key(node) == text).ok_or(RecordError::Key)
}

/// Why a record is not one.
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
    /// The record has another form.
    #[error("a record has form {form}, and this node reads {FORM}; run one version of postroom-cluster, or upgrade it")]
    Form {
        /// Its form.
        form: u8,
    },
    /// The record is too short.
    #[error("a record is too short; check who may write to the bucket of nodes")]
    Truncated,
    /// The name is not UTF-8.
    #[error("a record's name is not UTF-8; check who may write to the bucket of nodes")]
    NotText,
    /// The key is not a node ID.
    #[error("a record's key is not a node ID; check who may write to the bucket of nodes")]
    Key,
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
        assert_eq!(Record::new(name.clone(), 0), Err(RecordError::NameTooLong { bytes: 257 }));
        let long = [&whole[..9], name.as_bytes()].concat();
        assert_eq!(Record::decode(long.into()), Err(RecordError::NameTooLong { bytes: 257 }));
    }

    #[test]
    fn a_node_has_one_key() {
        let id = NodeId::new(0x7f3a).unwrap();
        assert_eq!((key(id).as_str(), node("7f3a")), ("7f3a", Ok(id)));
        for text in ["", "0", "7F3A", "07f3a", "+7f3a", "1000000000000", "x"] {
            assert_eq!(node(text), Err(RecordError::Key), "{text}");
        }
    }
}
