//! Messages between the directories of two nodes. All numbers are big-endian, and each text is preceded by its length.
//!
//! ```text
//! cast      text group | content                             code 0
//! follow    text group                                            1
//! unfollow  text group                                            2
//! members   text group | pid…                                     3
//! joined    text group | pid                                      4
//! left      text group | pid | reason (none: it has left)         5
//! claim     text name | pid | stamp u64                           6
//! unclaim   text name                                             7
//! ask key   number u64 | text process | text entry | text key     8
//! key at    number u64 | pid                                      9
//! no key    number u64 | refusal u8 | text                       10
//! content   message u16 | bytes
//! ```
//!
//! The decoder trusts no byte: it never panics, and reserves no memory beyond the bytes present.

use super::is_name;
use crate::codec::{decode_exit_reason, encode_exit_reason};
use crate::envelope::{Content, EnvelopeError};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use postroom::{ExitReason, Pid};

/// The maximum length of a text: the reason of a refusal.
pub(crate) const MAX_TEXT: usize = 4_096;

/// A message between the directories of two nodes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DirectoryMessage {
    /// Carries a message for each member on the receiving node.
    Cast { group: String, content: Content },
    /// Requests the receiver's members, and each later change.
    Follow { group: String },
    /// Requests no more changes.
    Unfollow { group: String },
    /// Lists the sender's members.
    Members { group: String, members: Vec<Pid> },
    /// A process of the sender has joined.
    Joined { group: String, pid: Pid },
    /// A process of the sender has left.
    Left { group: String, pid: Pid, reason: Option<ExitReason> },
    /// A process of the sender claims this eventual name.
    Claim { name: String, pid: Pid, stamp: u64 },
    /// No process of the sender claims this name any more.
    Unclaim { name: String },
    /// Requests the process of a key, and its start if there is none.
    AskKey { number: u64, process: String, entry: String, key: String },
    /// The process of the key.
    KeyAt { number: u64, pid: Pid },
    /// Why there is no process for the key.
    NoKey { number: u64, refusal: KeyRefusal },
}

/// Decodes a message and encodes it again, for fuzz tests. Returns `None` if the bytes are not a message.
#[doc(hidden)]
pub fn recoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let message = DirectoryMessage::decode(Bytes::copy_from_slice(bytes)).ok()?;
    Some(message.encode().into())
}

impl DirectoryMessage {
    /// Encodes the message.
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        match self {
            Self::Cast { group, content } => {
                out.reserve(group.len() + content.bytes.len());
                put(&mut out, 0, group);
                out.put_u16(content.message);
                out.put_slice(&content.bytes);
            }
            Self::Follow { group } => put(&mut out, 1, group),
            Self::Unfollow { group } => put(&mut out, 2, group),
            Self::Members { group, members } => {
                out.reserve(group.len() + 16 * members.len());
                put(&mut out, 3, group);
                members.iter().for_each(|pid| out.put_slice(&pid.to_bytes()));
            }
            Self::Joined { group, pid } => {
                put(&mut out, 4, group);
                out.put_slice(&pid.to_bytes());
            }
            Self::Left { group, pid, reason } => {
                put(&mut out, 5, group);
                out.put_slice(&pid.to_bytes());
                out.put_slice(&reason.as_ref().map_or_else(Bytes::new, encode_exit_reason));
            }
            Self::Claim { name, pid, stamp } => {
                put(&mut out, 6, name);
                out.put_slice(&pid.to_bytes());
                out.put_u64(*stamp);
            }
            Self::Unclaim { name } => put(&mut out, 7, name),
            Self::AskKey { number, process, entry, key } => {
                out.put_u8(8);
                out.put_u64(*number);
                [process, entry, key].into_iter().for_each(|text| put_text(&mut out, text));
            }
            Self::KeyAt { number, pid } => {
                out.put_u8(9);
                out.put_u64(*number);
                out.put_slice(&pid.to_bytes());
            }
            Self::NoKey { number, refusal } => {
                let (code, text) = refusal.to_code();
                out.put_u8(10);
                out.put_u64(*number);
                out.put_u8(code);
                put_text(&mut out, text);
            }
        }
        out.freeze()
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// If the bytes are not exactly one message.
    pub(crate) fn decode(mut bytes: Bytes) -> Result<Self, EnvelopeError> {
        let code = bytes.try_get_u8().map_err(|_| EnvelopeError::Truncated)?;
        let message = match code {
            0 => {
                let group = take_name(&mut bytes)?;
                let message = bytes.try_get_u16().map_err(|_| EnvelopeError::Truncated)?;
                return Ok(Self::Cast { group, content: Content { message, bytes } });
            }
            1 => Self::Follow { group: take_name(&mut bytes)? },
            2 => Self::Unfollow { group: take_name(&mut bytes)? },
            3 => {
                let group = take_name(&mut bytes)?;
                let mut members = Vec::with_capacity(bytes.len() / 16);
                while !bytes.is_empty() {
                    members.push(take_pid(&mut bytes)?);
                }
                Self::Members { group, members }
            }
            4 => Self::Joined { group: take_name(&mut bytes)?, pid: take_pid(&mut bytes)? },
            5 => {
                let (group, pid) = (take_name(&mut bytes)?, take_pid(&mut bytes)?);
                // A reason that cannot be decoded is still a reason.
                let reason = (!bytes.is_empty()).then(|| decode_exit_reason(&bytes).unwrap_or_else(ExitReason::error));
                return Ok(Self::Left { group, pid, reason });
            }
            6 => Self::Claim { name: take_name(&mut bytes)?, pid: take_pid(&mut bytes)?, stamp: take_u64(&mut bytes)? },
            7 => Self::Unclaim { name: take_name(&mut bytes)? },
            8 => Self::AskKey {
                number: take_u64(&mut bytes)?,
                process: take_text(&mut bytes)?,
                entry: take_text(&mut bytes)?,
                key: take_name(&mut bytes)?,
            },
            9 => Self::KeyAt { number: take_u64(&mut bytes)?, pid: take_pid(&mut bytes)? },
            10 => {
                let number = take_u64(&mut bytes)?;
                let code = bytes.try_get_u8().map_err(|_| EnvelopeError::Truncated)?;
                let text = take_text(&mut bytes)?;
                let refusal = KeyRefusal::of_code(code, text);
                Self::NoKey { number, refusal: refusal.ok_or(EnvelopeError::Kind { what: "KeyRefusal", code })? }
            }
            code => return Err(EnvelopeError::Kind { what: "DirectoryMessage", code }),
        };
        if bytes.is_empty() { Ok(message) } else { Err(EnvelopeError::TooLong { bytes: bytes.len() }) }
    }
}

fn put(out: &mut BytesMut, code: u8, text: &str) {
    out.put_u8(code);
    put_text(out, text);
}

/// Writes a text. Names are within the limit; the reason of a refusal is cut.
fn put_text(out: &mut BytesMut, text: &str) {
    let text = &text[..text.floor_char_boundary(MAX_TEXT)];
    out.put_u16(text.len() as u16);
    out.put_slice(text.as_bytes());
}

fn take_text(bytes: &mut Bytes) -> Result<String, EnvelopeError> {
    let length = usize::from(bytes.try_get_u16().map_err(|_| EnvelopeError::Truncated)?);
    if length > bytes.len() {
        return Err(EnvelopeError::Truncated);
    }
    String::from_utf8(bytes.split_to(length).into()).map_err(|_| EnvelopeError::NotText)
}

fn take_name(bytes: &mut Bytes) -> Result<String, EnvelopeError> {
    let name = take_text(bytes)?;
    if is_name(&name) { Ok(name) } else { Err(EnvelopeError::NotText) }
}

fn take_u64(bytes: &mut Bytes) -> Result<u64, EnvelopeError> {
    bytes.try_get_u64().map_err(|_| EnvelopeError::Truncated)
}

fn take_pid(bytes: &mut Bytes) -> Result<Pid, EnvelopeError> {
    let pid = bytes.try_get_u128().map_err(|_| EnvelopeError::Truncated)?;
    Pid::from_bytes(pid.to_be_bytes()).ok_or(EnvelopeError::Pid)
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

    pub(crate) fn to_code(&self) -> (u8, &str) {
        match self {
            Self::Moved => (0, ""),
            Self::NotExported => (1, ""),
            Self::Full => (2, ""),
            Self::NotAMember => (3, ""),
            Self::Failed(reason) => (4, reason),
            Self::Denied => (5, ""),
        }
    }

    pub(crate) fn of_code(code: u8, text: String) -> Option<Self> {
        match code {
            0 if text.is_empty() => Some(Self::Moved),
            1 if text.is_empty() => Some(Self::NotExported),
            2 if text.is_empty() => Some(Self::Full),
            3 if text.is_empty() => Some(Self::NotAMember),
            4 => Some(Self::Failed(text)),
            5 if text.is_empty() => Some(Self::Denied),
            _ => None,
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
        assert_eq!(decode(&[]), Err(EnvelopeError::Truncated));
        assert_eq!(decode(&[11]), Err(EnvelopeError::Kind { what: "DirectoryMessage", code: 11 }));
        assert_eq!(decode(&[1, 0, 0]), Err(EnvelopeError::NotText), "a group without a name");
        assert_eq!(decode(&[1, 0, 1, 0xff]), Err(EnvelopeError::NotText));
        assert_eq!(decode(&[1, 0, 1, b'a', 0]), Err(EnvelopeError::TooLong { bytes: 1 }));
        let long = [&[7, 4, 1][..], &[b'a'; MAX_NAME_AND_ONE]].concat();
        assert_eq!(decode(&long), Err(EnvelopeError::NotText), "a name of {MAX_NAME_AND_ONE} bytes");
        assert_eq!(decode(&[&[9; 9][..], &[0; 16]].concat()), Err(EnvelopeError::Pid));
        assert_eq!(
            decode(&[&[10; 9][..], &[99, 0, 0]].concat()),
            Err(EnvelopeError::Kind { what: "KeyRefusal", code: 99 })
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
