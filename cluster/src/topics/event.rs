//! The encoding of an event as one message of the broker.

use crate::names;
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The version of the event format that this crate writes.
const FORM: u8 = 1;

/// Maximum number of bytes of a type name that are sent. The name is for diagnostics only.
const MAX_TYPE_NAME: usize = 256;

/// Returns the subject of a topic.
pub(crate) fn subject(cluster: &str, topic: &str) -> String {
    format!("pr1.{cluster}.t.{}", names::key(topic))
}

/// An encoded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EncodedEvent {
    /// The hash of the type's structure as serde sees it.
    pub(crate) shape: u64,
    pub(crate) type_name: String,
    /// The number of the codec, and the encoded value.
    pub(crate) value: Bytes,
}

impl EncodedEvent {
    pub(crate) fn encode(&self) -> Bytes {
        let type_name = &self.type_name[..self.type_name.floor_char_boundary(MAX_TYPE_NAME)];
        let mut out = BytesMut::with_capacity(11 + type_name.len() + self.value.len());
        out.put_u8(FORM);
        out.put_u64(self.shape);
        out.put_u16(type_name.len() as u16);
        out.put_slice(type_name.as_bytes());
        out.put_slice(&self.value);
        out.freeze()
    }

    /// Decodes an event. Returns `None` if the bytes are not a valid event.
    pub(crate) fn decode(mut bytes: Bytes) -> Option<Self> {
        let form = bytes.try_get_u8().ok()?;
        let shape = bytes.try_get_u64().ok()?;
        let length = usize::from(bytes.try_get_u16().ok()?);
        if form != FORM || length > MAX_TYPE_NAME || length > bytes.len() {
            return None;
        }
        let type_name = String::from_utf8(bytes.split_to(length).into()).ok()?;
        Some(Self { shape, type_name, value: bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::MAX_NAME;
    use crate::subject::is_subject;

    #[test]
    fn subjects_are_legal_and_differ() {
        let names = ["prices", "a.b", "a b", "*", ">", "ü", &"x".repeat(MAX_NAME)];
        let subjects: Vec<_> = names.iter().map(|name| subject(&"c".repeat(64), name)).collect();
        assert!(subjects.iter().all(|subject| is_subject(subject)), "{subjects:?}");
        assert!(subjects.iter().enumerate().all(|(at, one)| !subjects[..at].contains(one)));
    }

    #[test]
    fn what_is_no_event_is_refused() {
        let event = EncodedEvent { shape: 7, type_name: "bank::Price".into(), value: Bytes::from_static(b"value") };
        let whole = event.encode();
        assert_eq!(EncodedEvent::decode(whole.clone()), Some(event.clone()));
        let header = whole.len() - event.value.len();
        assert!((0..header).all(|length| EncodedEvent::decode(whole.slice(..length)).is_none()));
        for (at, byte) in [(0, 2), (9, 0xff), (11, 0xff)] {
            let mut bytes = whole.to_vec();
            bytes[at] = byte;
            assert_eq!(EncodedEvent::decode(bytes.into()), None);
        }
        let long = EncodedEvent { type_name: "ü".repeat(200), ..event };
        assert_eq!(EncodedEvent::decode(long.encode()).unwrap().type_name, "ü".repeat(128));
    }
}
