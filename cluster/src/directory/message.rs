//! Messages between the directories of two nodes. Their declaration is their format (see [`wire`](crate::wire)).

use super::is_name;
use crate::codec::{decode_exit_reason, encode_exit_reason};
use crate::envelope::Content;
use crate::wire::{Field, WireError, messages, put_text};
use bytes::{BufMut, Bytes, BytesMut};
use postroom::{ExitReason, Pid};

/// The maximum length of a text: the reason of a refusal.
const MAX_TEXT: usize = 4_096;

messages! {
    /// A message between the directories of two nodes.
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) enum DirectoryMessage {
        /// Carries a message that is delivered to each member on the receiving node.
        Cast = 0 { group: String, content: Content, },
        /// Requests the receiver's members, and each later change.
        Follow = 1 { group: String, },
        /// Requests that no more changes are sent.
        Unfollow = 2 { group: String, },
        /// Lists the sender's members.
        Members = 3 { group: String, members: Vec<Pid>, },
        /// A process of the sender has joined.
        Joined = 4 { group: String, pid: Pid, },
        /// A process of the sender has left.
        Left = 5 { group: String, pid: Pid, reason: Option<ExitReason>, },
        /// A process of the sender claims this eventual name.
        Claim = 6 { name: String, pid: Pid, stamp: u64, },
        /// No process of the sender claims this name any more.
        Unclaim = 7 { name: String, },
        /// Requests the process of a key, and its start if there is none.
        AskKey = 8 { number: u64, process: String, entry: String, key: String, },
        /// Returns the process of the key.
        KeyAt = 9 { number: u64, pid: Pid, },
        /// Reports why there is no process for the key.
        NoKey = 10 { number: u64, refusal: KeyRefusal, },
    }
}

/// Decodes a message and encodes it again, for fuzz tests. Returns `None` if the bytes are not a message.
#[doc(hidden)]
pub fn recoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let message = DirectoryMessage::decode(Bytes::copy_from_slice(bytes)).ok()?;
    Some(message.encode().into())
}

impl DirectoryMessage {
    fn check(&self) -> Result<(), WireError> {
        if self.name().is_none_or(is_name) { Ok(()) } else { Err(WireError::NotText) }
    }

    /// Returns the name of the group, the eventual name or the key that the message is about.
    fn name(&self) -> Option<&str> {
        match self {
            Self::Cast { group, .. }
            | Self::Follow { group }
            | Self::Unfollow { group }
            | Self::Members { group, .. }
            | Self::Joined { group, .. }
            | Self::Left { group, .. } => Some(group),
            Self::Claim { name, .. } | Self::Unclaim { name } => Some(name),
            Self::AskKey { key, .. } => Some(key),
            Self::KeyAt { .. } | Self::NoKey { .. } => None,
        }
    }
}

/// The reason is encoded in all remaining bytes. If there are none, there is no reason. A reason that cannot be decoded
/// becomes a reason that contains the decoding error.
impl Field for Option<ExitReason> {
    fn length(&self) -> usize {
        // An estimate: even the shortest reasons take three bytes.
        1
    }

    fn put(&self, to: &mut BytesMut) {
        to.put_slice(&self.as_ref().map_or_else(Bytes::new, encode_exit_reason));
    }

    fn take(from: &mut Bytes) -> Result<Self, WireError> {
        let bytes = Bytes::take(from)?;
        Ok((!bytes.is_empty()).then(|| decode_exit_reason(&bytes).unwrap_or_else(ExitReason::error)))
    }
}

/// Why a node does not return the process of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRefusal {
    /// The node sees another home for the key.
    Moved,
    /// The node does not export the type.
    NotExported,
    /// The node has the maximum number of keys, or of waiting requests.
    Full,
    /// The node is currently not a member.
    NotAMember,
    /// The process was not started, for this reason.
    Failed(String),
    /// The node's policy does not allow the start.
    Denied,
}

impl KeyRefusal {
    /// Shortens the reason: the text of a user error may have any length.
    pub(crate) fn shortened(self) -> Self {
        match self {
            Self::Failed(mut reason) => {
                reason.truncate(reason.floor_char_boundary(MAX_TEXT));
                reason.shrink_to_fit();
                Self::Failed(reason)
            }
            other => other,
        }
    }
}

/// A refusal is encoded as a code and a text. The text is empty for all refusals but [`Failed`](KeyRefusal::Failed).
impl Field for KeyRefusal {
    fn length(&self) -> usize {
        match self {
            Self::Failed(reason) => 3 + reason.len(),
            _ => 3,
        }
    }

    fn put(&self, to: &mut BytesMut) {
        let (code, text) = match self {
            Self::Moved => (0, ""),
            Self::NotExported => (1, ""),
            Self::Full => (2, ""),
            Self::NotAMember => (3, ""),
            Self::Failed(reason) => (4, reason.as_str()),
            Self::Denied => (5, ""),
        };
        u8::put(&code, to);
        put_text(&text[..text.floor_char_boundary(MAX_TEXT)], to);
    }

    fn take(from: &mut Bytes) -> Result<Self, WireError> {
        let (code, text) = (u8::take(from)?, String::take(from)?);
        match code {
            0 if text.is_empty() => Ok(Self::Moved),
            1 if text.is_empty() => Ok(Self::NotExported),
            2 if text.is_empty() => Ok(Self::Full),
            3 if text.is_empty() => Ok(Self::NotAMember),
            4 => Ok(Self::Failed(text)),
            5 if text.is_empty() => Ok(Self::Denied),
            _ => Err(WireError::Kind { what: "KeyRefusal", code }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn one_of_each() -> Vec<DirectoryMessage> {
        let pid = |slot: u32| -> Pid { format!("<7f.1.{slot}.3>").parse().unwrap() };
        let name = || "tellers".to_owned();
        let mut all = vec![
            DirectoryMessage::Cast {
                group: name(),
                content: Content { message: 3, bytes: Bytes::from_static(b"value") },
            },
            DirectoryMessage::Follow { group: name() },
            DirectoryMessage::Unfollow { group: name() },
            DirectoryMessage::Members { group: name(), members: vec![] },
            DirectoryMessage::Members { group: name(), members: vec![pid(1), pid(2)] },
            DirectoryMessage::Joined { group: name(), pid: pid(1) },
            DirectoryMessage::Left { group: name(), pid: pid(1), reason: None },
            DirectoryMessage::Left { group: name(), pid: pid(1), reason: Some(ExitReason::Killed) },
            DirectoryMessage::Claim { name: name(), pid: pid(1), stamp: 9 },
            DirectoryMessage::Unclaim { name: name() },
            DirectoryMessage::AskKey { number: 4, process: "Account".into(), entry: "open".into(), key: "7".into() },
            DirectoryMessage::KeyAt { number: 4, pid: pid(1) },
        ];
        let refusals = [
            KeyRefusal::Moved,
            KeyRefusal::NotExported,
            KeyRefusal::Full,
            KeyRefusal::NotAMember,
            KeyRefusal::Failed("no such entry".into()),
            KeyRefusal::Denied,
        ];
        all.extend(refusals.map(|refusal| DirectoryMessage::NoKey { number: 4, refusal }));
        all
    }

    #[test]
    fn each_message_arrives_as_it_was_sent() {
        for message in one_of_each() {
            assert_eq!(DirectoryMessage::decode(message.encode()), Ok(message));
        }
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_reason() {
        let decode = |bytes: &[u8]| DirectoryMessage::decode(Bytes::copy_from_slice(bytes));
        assert_eq!(decode(&[]), Err(WireError::Truncated));
        assert_eq!(decode(&[11]), Err(WireError::Kind { what: "DirectoryMessage", code: 11 }));
        assert_eq!(decode(&[1, 0, 0]), Err(WireError::NotText), "a group without a name");
        assert_eq!(decode(&[1, 0, 1, 0xff]), Err(WireError::NotText));
        assert_eq!(decode(&[1, 0, 1, b'a', 0]), Err(WireError::TooLong { bytes: 1 }));
        let long = [&[7, 4, 1][..], &[b'a'; MAX_NAME_AND_ONE]].concat();
        assert_eq!(decode(&long), Err(WireError::NotText), "a name of {MAX_NAME_AND_ONE} bytes");
        assert_eq!(decode(&[&[9; 9][..], &[0; 16]].concat()), Err(WireError::Pid));
        assert_eq!(
            decode(&[&[10; 9][..], &[99, 0, 0]].concat()),
            Err(WireError::Kind { what: "KeyRefusal", code: 99 })
        );
    }

    const MAX_NAME_AND_ONE: usize = super::super::MAX_NAME + 1;

    /// Accepted bytes encode to the same bytes again, except for exit reasons that cannot be decoded.
    #[test]
    fn random_bytes_are_refused_or_have_one_form() {
        let (mut random, mut accepted) = (Random::new(7), 0);
        let whole: Vec<_> = one_of_each().iter().map(DirectoryMessage::encode).collect();
        for _ in 0..100_000 {
            let mut bytes = whole[random.below(whole.len() as u64) as usize].to_vec();
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.below(256) as u8;
            }
            bytes.truncate(bytes.len() - random.below(2) as usize);
            let bytes = Bytes::from(bytes);
            match DirectoryMessage::decode(bytes.clone()) {
                Ok(DirectoryMessage::Left { .. }) | Err(_) => {}
                Ok(message) => {
                    assert_eq!(message.encode(), bytes);
                    accepted += 1;
                }
            }
        }
        assert!(accepted > 1_000 && accepted < 100_000, "{accepted} of 100,000");
    }
}
