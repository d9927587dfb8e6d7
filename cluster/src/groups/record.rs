//! The record in the store that counts a node's members of a group, and the key of that record.

use crate::directory::is_name;
use crate::names;
use crate::store::Revision;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use postroom::NodeId;

/// The record format that this crate writes.
const FORM: u8 = 1;

/// The number of members that a node has in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) group: String,
    /// The epoch of the node's membership. The record is valid only during that membership.
    pub(super) epoch: Revision,
    pub(super) members: u32,
}

impl Count {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(13 + self.group.len());
        out.put_u8(FORM);
        out.put_u64(self.epoch.0);
        out.put_u32(self.members);
        out.put_slice(self.group.as_bytes());
        out.freeze()
    }

    /// Decodes a record. Returns `None` if the bytes are not a record.
    pub(super) fn decode(mut bytes: Bytes) -> Option<Self> {
        let form = bytes.try_get_u8().ok()?;
        let (epoch, members) = (Revision(bytes.try_get_u64().ok()?), bytes.try_get_u32().ok()?);
        let group = String::from_utf8(bytes.into()).ok()?;
        (form == FORM && members > 0 && is_name(&group)).then_some(Self { group, epoch, members })
    }
}

/// Returns the key for a node and a group.
pub(super) fn key(node: NodeId, group: &str) -> String {
    format!("{node}.{}", names::key(group))
}

/// Returns the node that a key names.
pub(super) fn node_of(key: &str) -> Option<NodeId> {
    let text = key.split_once('.')?.0;
    let node = u64::from_str_radix(text, 16).ok().and_then(NodeId::new)?;
    // Each node ID has only one valid spelling.
    (node.to_string() == text).then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::MAX_NAME;
    use crate::subject::is_key;

    #[test]
    fn keys_are_legal_and_name_their_node() {
        let node = NodeId::new(0x7f).unwrap();
        for group in ["tellers", "a.b", "ü", " ", &"x".repeat(MAX_NAME)] {
            let key = key(node, group);
            assert!(is_key(&key), "{key}");
            assert_eq!(node_of(&key), Some(node));
        }
        assert_eq!((node_of("tellers"), node_of(".a")), (None, None));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let count = Count { group: "tellers".into(), epoch: Revision(9), members: 3 };
        let whole = count.encode();
        assert_eq!(Count::decode(whole.clone()), Some(count));
        assert!((0..=13).all(|length| Count::decode(whole.slice(..length)).is_none()));
        for (at, byte) in [(0, 2), (13, 0xff)] {
            let mut bytes = whole.to_vec();
            bytes[at] = byte;
            assert_eq!(Count::decode(bytes.into()), None);
        }
        assert_eq!(Count::decode(Count { group: "a".into(), epoch: Revision(9), members: 0 }.encode()), None);
    }
}
