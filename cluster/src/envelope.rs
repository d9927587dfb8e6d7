//! Envelopes: the format of one message of a [session](crate::session).
//!
//! A session carries bytes, in order and once. An envelope gives them their meaning: a message for a process, a call,
//! the answer to a call, a link, a request to start a process. All numbers are big-endian.
//!
//! ```text
//! envelope  kind u8 | body
//! message   to pid | content                                               kind 0
//! call      to pid | number u64 | time left, ms u64 (0: none) | content         1
//! answer    number u64 | content                                                2
//! failed    number u64 | error                                                  3
//! link      from pid | to pid | kind u8 | number u64 | reason                   4
//! start     number u64 | content                                                6
//! started   number u64 | pid                                                    7
//! refused   number u64 | text                                                   8
//! abandon   number u64                                                         40
//! start keyed  number u64 | key length u16 | key | content                     41
//! key taken number u64 | type                                                  42
//! child     number u64 | content                                               60
//! ended     number u64 | name length u16 | name | reason                       61
//! ask       number u64 (0: no one waits) | to pid | what u8 | reason           62
//! told      number u64 | what u8 | bytes                                       63
//! directory a message of groups, eventual names or keys                        50
//! content   message u16 | bytes
//! pid       16 bytes, as `Pid::to_bytes`
//! ```
//!
//! A message, an answer and the inputs of a start are identified by their place in the *sender's*
//! [`Table`](crate::frame::Table), which is exchanged in the handshake, so names are not sent again. Reasons and
//! errors are encoded by [`codec`](crate::codec).
//!
//! The decoder trusts no byte: it never panics, and allocates nothing but the short texts: the text of a refusal, a
//! key, the name of a type or of a message, none of them longer than the envelope. The content of a message is
//! checked by its codec.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use postroom::Pid;
use std::num::NonZeroU64;
use std::time::Duration;

/// The content of one message of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Envelope {
    /// A message that was sent without a call.
    Message {
        /// The receiving process.
        to: Pid,
        /// The message.
        content: Content,
    },
    /// A message that was sent by a call.
    Call {
        /// The receiving process.
        to: Pid,
        /// The number for the answer.
        number: u64,
        /// The time until the caller's deadline, if it has one. Clocks of two nodes are unrelated, so the deadline
        /// itself cannot be sent; the transit time is not subtracted.
        time_left: Option<Duration>,
        /// The message.
        content: Content,
    },
    /// The answer to a call. The caller knows the type of the call.
    Answer {
        /// The number of the call.
        number: u64,
        /// The value.
        content: Content,
    },
    /// The answer to a failed call.
    Failed {
        /// The number of the call.
        number: u64,
        /// The encoded error.
        error: Bytes,
    },
    /// A message of the link protocol.
    Link {
        /// The process that sends it, a process of the sending node.
        from: Pid,
        /// The process that receives it.
        to: Pid,
        /// The kind of the message.
        link: LinkKind,
        /// The number of the unlink or of the monitor; zero for other kinds.
        number: u64,
        /// The encoded exit reason; empty for kinds without one.
        reason: Bytes,
    },
    /// A request to start a process.
    Start {
        /// The number for the answer.
        number: u64,
        /// The entry and its inputs.
        content: Content,
    },
    /// The process was started.
    Started {
        /// The number of the request.
        number: u64,
        /// The new process.
        pid: Pid,
    },
    /// The process was not started.
    Refused {
        /// The number of the request.
        number: u64,
        /// The reason, as human-readable text.
        reason: String,
    },
    /// The caller has given up on a call.
    Abandon {
        /// The number of the call.
        number: u64,
    },
    /// A request to start a process, unless one was already started with the same key.
    StartKeyed {
        /// The number for the answer.
        number: u64,
        /// The key.
        key: String,
        /// The entry and its inputs.
        content: Content,
    },
    /// The process was not started: the key belongs to a process of another type.
    KeyTaken {
        /// The number of the request.
        number: u64,
        /// The type of that process.
        process: String,
    },
    /// A request to start a child of a supervisor. The child ends with the session. Answered like a start, in the
    /// data lane.
    StartChild {
        /// The number for the answer and for the report of the child's end.
        number: u64,
        /// The entry and its inputs.
        content: Content,
    },
    /// A child of a supervisor of the receiving node has ended.
    ChildEnded {
        /// The number of the request that started it.
        number: u64,
        /// The type of the message in whose handling it failed; empty if it failed elsewhere.
        handling: String,
        /// The encoded reason.
        reason: Bytes,
    },
    /// A question or request to the node about one of its processes, which is answered.
    Ask {
        /// The number for the answer. Zero if no one waits for one: the only possible answer is then that the node
        /// denies the request.
        number: u64,
        /// The process.
        to: Pid,
        /// The question or request.
        ask: AskKind,
        /// The encoded reason of an [`AskKind::Cancel`].
        reason: Bytes,
    },
    /// The answer to an [`Ask`](Self::Ask), and to a start that the node denies or has no room for.
    Told {
        /// The number of the request.
        number: u64,
        /// The result.
        told: ToldKind,
        /// The encoded snapshot of a [`ToldKind::Info`].
        bytes: Bytes,
    },
    /// An encoded message of groups, eventual names or keys.
    Directory(Bytes),
}

/// An encoded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The place of its message, or entry, in the sender's table.
    pub message: u16,
    /// The encoded value.
    pub bytes: Bytes,
}

/// Declares an enum whose variants are encoded as one byte each.
macro_rules! coded {
    ($(#[$meta:meta])* $vis:vis $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        $vis enum $name { $($(#[$variant_meta])* $variant = $code,)* }

        impl $name {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn decode(code: u8) -> Result<Self, EnvelopeError> {
                let found = Self::ALL.iter().find(|variant| **variant as u8 == code);
                found.copied().ok_or(EnvelopeError::Kind { what: stringify!($name), code })
            }
        }
    };
}

coded! {
    /// The kind of a message of the link protocol.
    pub LinkKind {
        /// The sender is now linked to the receiver.
        Link = 0,
        /// The sender is no longer linked; the receiver answers with the same number.
        Unlink = 1,
        /// The answer to an unlink.
        Unlinked = 2,
        /// The receiver has to report its end to the sender, under this number.
        Watch = 3,
        /// The sender no longer watches the receiver.
        Unwatch = 4,
        /// The sender has ended, and the receiver watched it.
        Down = 5,
        /// The sender has ended, and was linked to the receiver.
        Exit = 6,
        /// Like `Exit`, for a partner that does not trap exits.
        Failed = 7,
    }
}

coded! {
    /// The kind of a question or request to a node.
    pub AskKind {
        /// Requests a snapshot of a process.
        Info = 0,
        /// Stops the process after the messages that have arrived.
        Stop = 1,
        /// Cancels the process, which cleans up before it ends.
        Cancel = 2,
        /// Kills the process at once.
        Kill = 3,
    }
}

coded! {
    /// The result of a request.
    pub ToldKind {
        /// The request was passed to the process.
        Done = 0,
        /// The process does not exist.
        Gone = 1,
        /// The node does not allow the request.
        Denied = 2,
        /// The snapshot follows.
        Info = 3,
        /// For a start: too many starts of this peer are waiting already.
        Full = 4,
    }
}

coded! {
    /// The first byte of an envelope.
    Kind {
        /// [`Envelope::Message`]
        Message = 0,
        /// [`Envelope::Call`]
        Call = 1,
        /// [`Envelope::Answer`]
        Answer = 2,
        /// [`Envelope::Failed`]
        Failed = 3,
        /// [`Envelope::Link`]
        Link = 4,
        /// [`Envelope::Start`]
        Start = 6,
        /// [`Envelope::Started`]
        Started = 7,
        /// [`Envelope::Refused`]
        Refused = 8,
        /// [`Envelope::Abandon`]
        Abandon = 40,
        /// [`Envelope::StartKeyed`]
        StartKeyed = 41,
        /// [`Envelope::KeyTaken`]
        KeyTaken = 42,
        /// [`Envelope::StartChild`]
        StartChild = 60,
        /// [`Envelope::ChildEnded`]
        ChildEnded = 61,
        /// [`Envelope::Ask`]
        Ask = 62,
        /// [`Envelope::Told`]
        Told = 63,
        /// [`Envelope::Directory`]
        Directory = 50,
    }
}

/// Why bytes are not a valid envelope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The bytes end too early.
    #[error("an envelope is too short; update the older of the two nodes")]
    Truncated,
    /// There are bytes after the end.
    #[error("an envelope has {bytes} bytes after its end; update the older of the two nodes")]
    TooLong {
        /// The number of surplus bytes.
        bytes: usize,
    },
    /// A byte that selects a variant has an unknown value.
    #[error("an envelope has {what} {code}, which this node does not know; update the older of the two nodes")]
    Kind {
        /// The field that the byte belongs to.
        what: &'static str,
        /// The byte.
        code: u8,
    },
    /// A PID is not valid.
    #[error("an envelope has a PID without a node; check who may publish to this node")]
    Pid,
    /// A text is not UTF-8.
    #[error("a text in an envelope is not UTF-8; check who may publish to this node")]
    NotText,
}

impl Envelope {
    /// Encodes the envelope.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64 + self.content_len());
        match self {
            Self::Message { to, content } => {
                out.put_u8(Kind::Message as u8);
                out.put_slice(&to.to_bytes());
                content.encode(&mut out);
            }
            Self::Call { to, number, time_left, content } => {
                out.put_u8(Kind::Call as u8);
                out.put_slice(&to.to_bytes());
                out.put_u64(*number);
                out.put_u64(time_left.map_or(0, milliseconds));
                content.encode(&mut out);
            }
            Self::Answer { number, content } => {
                out.put_u8(Kind::Answer as u8);
                out.put_u64(*number);
                content.encode(&mut out);
            }
            Self::Failed { number, error } => {
                out.put_u8(Kind::Failed as u8);
                out.put_u64(*number);
                out.put_slice(error);
            }
            Self::Link { from, to, link, number, reason } => {
                out.put_u8(Kind::Link as u8);
                out.put_slice(&from.to_bytes());
                out.put_slice(&to.to_bytes());
                out.put_u8(*link as u8);
                out.put_u64(*number);
                out.put_slice(reason);
            }
            Self::Start { number, content } => {
                out.put_u8(Kind::Start as u8);
                out.put_u64(*number);
                content.encode(&mut out);
            }
            Self::Started { number, pid } => {
                out.put_u8(Kind::Started as u8);
                out.put_u64(*number);
                out.put_slice(&pid.to_bytes());
            }
            Self::Refused { number, reason } => {
                out.put_u8(Kind::Refused as u8);
                out.put_u64(*number);
                out.put_slice(reason.as_bytes());
            }
            Self::Abandon { number } => {
                out.put_u8(Kind::Abandon as u8);
                out.put_u64(*number);
            }
            Self::StartKeyed { number, key, content } => {
                out.put_u8(Kind::StartKeyed as u8);
                out.put_u64(*number);
                put_short_text(&mut out, key);
                content.encode(&mut out);
            }
            Self::KeyTaken { number, process } => {
                out.put_u8(Kind::KeyTaken as u8);
                out.put_u64(*number);
                out.put_slice(process.as_bytes());
            }
            Self::StartChild { number, content } => {
                out.put_u8(Kind::StartChild as u8);
                out.put_u64(*number);
                content.encode(&mut out);
            }
            Self::ChildEnded { number, handling, reason } => {
                out.put_u8(Kind::ChildEnded as u8);
                out.put_u64(*number);
                put_short_text(&mut out, handling);
                out.put_slice(reason);
            }
            Self::Ask { number, to, ask, reason } => {
                out.put_u8(Kind::Ask as u8);
                out.put_u64(*number);
                out.put_slice(&to.to_bytes());
                out.put_u8(*ask as u8);
                out.put_slice(reason);
            }
            Self::Told { number, told, bytes } => {
                out.put_u8(Kind::Told as u8);
                out.put_u64(*number);
                out.put_u8(*told as u8);
                out.put_slice(bytes);
            }
            Self::Directory(message) => {
                out.put_u8(Kind::Directory as u8);
                out.put_slice(message);
            }
        }
        out.freeze()
    }

    /// Returns the total length of the fields without a fixed length.
    fn content_len(&self) -> usize {
        match self {
            Self::Message { content, .. }
            | Self::Call { content, .. }
            | Self::Answer { content, .. }
            | Self::Start { content, .. }
            | Self::StartChild { content, .. } => content.bytes.len(),
            Self::Failed { error, .. } => error.len(),
            Self::Link { reason, .. } => reason.len(),
            Self::StartKeyed { key, content, .. } => key.len() + content.bytes.len(),
            Self::Started { .. } | Self::Abandon { .. } => 0,
            Self::KeyTaken { process, .. } => process.len(),
            Self::Refused { reason, .. } => reason.len(),
            Self::ChildEnded { handling, reason, .. } => handling.len() + reason.len(),
            Self::Ask { reason, .. } => reason.len(),
            Self::Told { bytes, .. } => bytes.len(),
            Self::Directory(message) => message.len(),
        }
    }

    /// Decodes an envelope.
    ///
    /// # Errors
    /// If the bytes are not a valid envelope.
    pub fn decode(mut bytes: Bytes) -> Result<Self, EnvelopeError> {
        Ok(match Kind::decode(take_u8(&mut bytes)?)? {
            Kind::Message => Self::Message { to: take_pid(&mut bytes)?, content: Content::decode(bytes)? },
            Kind::Call => Self::Call {
                to: take_pid(&mut bytes)?,
                number: take_u64(&mut bytes)?,
                time_left: NonZeroU64::new(take_u64(&mut bytes)?).map(|left| Duration::from_millis(left.get())),
                content: Content::decode(bytes)?,
            },
            Kind::Answer => Self::Answer { number: take_u64(&mut bytes)?, content: Content::decode(bytes)? },
            Kind::Failed => Self::Failed { number: take_u64(&mut bytes)?, error: bytes },
            Kind::Link => Self::Link {
                from: take_pid(&mut bytes)?,
                to: take_pid(&mut bytes)?,
                link: LinkKind::decode(take_u8(&mut bytes)?)?,
                number: take_u64(&mut bytes)?,
                reason: bytes,
            },
            Kind::Start => Self::Start { number: take_u64(&mut bytes)?, content: Content::decode(bytes)? },
            Kind::Started => {
                let started = Self::Started { number: take_u64(&mut bytes)?, pid: take_pid(&mut bytes)? };
                nothing_after(&bytes)?;
                started
            }
            Kind::Abandon => {
                let abandon = Self::Abandon { number: take_u64(&mut bytes)? };
                nothing_after(&bytes)?;
                abandon
            }
            Kind::StartKeyed => {
                let number = take_u64(&mut bytes)?;
                let key = take_short_text(&mut bytes)?;
                Self::StartKeyed { number, key, content: Content::decode(bytes)? }
            }
            Kind::KeyTaken => Self::KeyTaken { number: take_u64(&mut bytes)?, process: text(bytes)? },
            Kind::Refused => Self::Refused { number: take_u64(&mut bytes)?, reason: text(bytes)? },
            Kind::StartChild => Self::StartChild { number: take_u64(&mut bytes)?, content: Content::decode(bytes)? },
            Kind::ChildEnded => {
                let number = take_u64(&mut bytes)?;
                Self::ChildEnded { number, handling: take_short_text(&mut bytes)?, reason: bytes }
            }
            Kind::Ask => Self::Ask {
                number: take_u64(&mut bytes)?,
                to: take_pid(&mut bytes)?,
                ask: AskKind::decode(take_u8(&mut bytes)?)?,
                reason: bytes,
            },
            Kind::Told => {
                Self::Told { number: take_u64(&mut bytes)?, told: ToldKind::decode(take_u8(&mut bytes)?)?, bytes }
            }
            Kind::Directory => Self::Directory(bytes),
        })
    }
}

/// Writes a text with its length before it. Longer texts are refused, or cut, where they are created.
fn put_short_text(out: &mut BytesMut, text: &str) {
    let text = &text[..text.floor_char_boundary(usize::from(u16::MAX))];
    out.put_u16(text.len() as u16);
    out.put_slice(text.as_bytes());
}

fn take_short_text(bytes: &mut Bytes) -> Result<String, EnvelopeError> {
    let length = bytes.try_get_u16().map_err(|_| EnvelopeError::Truncated)?.into();
    if bytes.len() < length {
        return Err(EnvelopeError::Truncated);
    }
    text(bytes.split_to(length))
}

impl Content {
    fn encode(&self, out: &mut BytesMut) {
        out.put_u16(self.message);
        out.put_slice(&self.bytes);
    }

    fn decode(mut bytes: Bytes) -> Result<Self, EnvelopeError> {
        let message = bytes.try_get_u16().map_err(|_| EnvelopeError::Truncated)?;
        Ok(Self { message, bytes })
    }
}

/// Converts a time to milliseconds, at least one: zero stands for no deadline.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

fn take_u8(bytes: &mut Bytes) -> Result<u8, EnvelopeError> {
    bytes.try_get_u8().map_err(|_| EnvelopeError::Truncated)
}

fn take_u64(bytes: &mut Bytes) -> Result<u64, EnvelopeError> {
    bytes.try_get_u64().map_err(|_| EnvelopeError::Truncated)
}

fn take_pid(bytes: &mut Bytes) -> Result<Pid, EnvelopeError> {
    let pid = bytes.try_get_u128().map_err(|_| EnvelopeError::Truncated)?;
    Pid::from_bytes(pid.to_be_bytes()).ok_or(EnvelopeError::Pid)
}

fn nothing_after(bytes: &Bytes) -> Result<(), EnvelopeError> {
    if bytes.is_empty() { Ok(()) } else { Err(EnvelopeError::TooLong { bytes: bytes.len() }) }
}

fn text(bytes: Bytes) -> Result<String, EnvelopeError> {
    String::from_utf8(bytes.into()).map_err(|_| EnvelopeError::NotText)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn pid(slot: u32) -> Pid {
        format!("<7f.1.{slot}.3>").parse().unwrap()
    }

    fn one_of_each() -> Vec<Envelope> {
        let content = || Content { message: 513, bytes: Bytes::from_static(b"value") };
        let mut all = vec![
            Envelope::Message { to: pid(5), content: content() },
            Envelope::Call { to: pid(5), number: 9, time_left: None, content: content() },
            Envelope::Call { to: pid(5), number: 9, time_left: Some(Duration::from_millis(77)), content: content() },
            Envelope::Answer { number: 1 << 40, content: content() },
            Envelope::Failed { number: 8, error: Bytes::from_static(b"\x02") },
            Envelope::Start { number: 4, content: content() },
            Envelope::Started { number: 4, pid: pid(6) },
            Envelope::Abandon { number: 9 },
            Envelope::StartKeyed { number: 5, key: "order-17".into(), content: content() },
            Envelope::KeyTaken { number: 5, process: "Order".into() },
            Envelope::Refused { number: 4, reason: "no type `Acount`; did you mean `Account`?".into() },
            Envelope::Directory(Bytes::from_static(b"\x01")),
        ];
        let reason = || Bytes::from_static(b"\x03");
        all.extend(LinkKind::ALL.iter().map(|&link| {
            let (from, to) = (pid(1), pid(2));
            Envelope::Link { from, to, link, number: 3, reason: reason() }
        }));
        all.push(Envelope::StartChild { number: 5, content: content() });
        for handling in ["", "Account::fail"] {
            all.push(Envelope::ChildEnded { number: 5, handling: handling.into(), reason: reason() });
        }
        all.extend(AskKind::ALL.iter().map(|&ask| Envelope::Ask { number: 6, to: pid(2), ask, reason: reason() }));
        all.extend(ToldKind::ALL.iter().map(|&told| Envelope::Told { number: 6, told, bytes: reason() }));
        all
    }

    #[test]
    fn each_envelope_arrives_as_it_was_sent() {
        for envelope in one_of_each() {
            assert_eq!(Envelope::decode(envelope.encode()), Ok(envelope));
        }
    }

    /// Checks the lengths of the fixed parts, from the table above.
    #[test]
    fn an_envelope_that_is_cut_is_refused() {
        let fixed = |envelope: &Envelope| match envelope {
            Envelope::Message { .. } => 1 + 16 + 2,
            Envelope::Call { .. } => 1 + 16 + 16 + 2,
            Envelope::Answer { .. } | Envelope::Start { .. } | Envelope::StartChild { .. } => 1 + 8 + 2,
            Envelope::Failed { .. } | Envelope::Refused { .. } => 1 + 8,
            Envelope::ChildEnded { handling, .. } => 1 + 8 + 2 + handling.len(),
            Envelope::Abandon { .. } | Envelope::KeyTaken { .. } => 1 + 8,
            Envelope::StartKeyed { key, .. } => 1 + 8 + 2 + key.len() + 2,
            Envelope::Link { .. } => 1 + 32 + 9,
            Envelope::Started { .. } => 1 + 8 + 16,
            Envelope::Ask { .. } => 1 + 8 + 16 + 1,
            Envelope::Told { .. } => 1 + 8 + 1,
            Envelope::Directory(_) => 1,
        };
        for envelope in one_of_each() {
            let bytes = envelope.encode();
            for length in 0..bytes.len() {
                let cut = Envelope::decode(bytes.slice(..length));
                assert_eq!(cut == Err(EnvelopeError::Truncated), length < fixed(&envelope), "{envelope:?} at {length}");
            }
        }
    }

    #[test]
    fn what_is_no_envelope_is_refused_with_its_reason() {
        let decode = |bytes: &[u8]| Envelope::decode(Bytes::copy_from_slice(bytes));
        assert_eq!(decode(&[9]), Err(EnvelopeError::Kind { what: "Kind", code: 9 }));
        assert_eq!(decode(&[&[0_u8][..], &[0; 19]].concat()), Err(EnvelopeError::Pid));
        let link = one_of_each().into_iter().find(|envelope| matches!(envelope, Envelope::Link { .. })).unwrap();
        let mut bytes = link.encode().to_vec();
        bytes[33] = 8;
        assert_eq!(decode(&bytes), Err(EnvelopeError::Kind { what: "LinkKind", code: 8 }));
        assert_eq!(decode(&[&[8_u8][..], &[0; 8], &[0xff]].concat()), Err(EnvelopeError::NotText));
    }

    #[test]
    fn a_deadline_that_has_just_passed_does_not_become_none() {
        let content = Content { message: 0, bytes: Bytes::new() };
        let call = Envelope::Call { to: pid(1), number: 1, time_left: Some(Duration::ZERO), content };
        let Ok(Envelope::Call { time_left, .. }) = Envelope::decode(call.encode()) else { panic!("a call") };
        assert_eq!(time_left, Some(Duration::from_millis(1)));
    }

    /// Checks that accepted bytes are encoded to the same bytes: each envelope has one form.
    #[test]
    fn random_bytes_are_refused_or_have_one_form() {
        let (mut random, mut accepted) = (Random::new(7), 0);
        let whole: Vec<_> = one_of_each().iter().map(Envelope::encode).collect();
        for _ in 0..100_000 {
            let mut bytes = whole[random.below(whole.len() as u64) as usize].to_vec();
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.below(256) as u8;
            }
            let bytes = Bytes::from(bytes);
            if let Ok(envelope) = Envelope::decode(bytes.clone()) {
                assert_eq!(envelope.encode(), bytes);
                accepted += 1;
            }
        }
        assert!(accepted > 1_000 && accepted < 100_000, "{accepted} of 100,000");
    }
}
