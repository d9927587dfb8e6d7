//! Envelopes: the format of one message of a [session](crate::session).
//!
//! A session carries bytes, in order and exactly once. An envelope gives them their meaning: a message for a process, a
//! call, the answer to a call, a link, a request to start a process. The declaration of the enum is the format: numbers
//! are big-endian, a PID is 16 bytes, a text is preceded by its length in two bytes, and content takes all remaining
//! bytes.
//!
//! A message, an answer and the inputs of a start are identified by their position in the *sender's*
//! [`Table`](crate::frame::Table), which is exchanged in the handshake, so names are not sent again. Reasons and errors
//! are encoded by [`codec`](crate::codec).

pub use crate::wire::WireError;
use crate::wire::{Field, codes, messages};
use bytes::{Bytes, BytesMut};
use postroom::Pid;
use std::num::NonZeroU64;
use std::time::Duration;

messages! {
    /// The content of one message of a session.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Envelope {
        /// A message that was sent without a call.
        Message = 0 {
            /// The receiving process.
            to: Pid,
            /// The message.
            content: Content,
        },
        /// A message that was sent by a call.
        Call = 1 {
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
        /// The answer to a call. The number of the message in the content determines the type of the answer.
        Answer = 2 {
            /// The number of the call.
            number: u64,
            /// The value.
            content: Content,
        },
        /// The answer to a failed call.
        Failed = 3 {
            /// The number of the call.
            number: u64,
            /// The encoded error.
            error: Bytes,
        },
        /// A message of the link protocol.
        Link = 4 {
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
        Start = 6 {
            /// The number for the answer.
            number: u64,
            /// The entry and its inputs.
            content: Content,
        },
        /// The process was started.
        Started = 7 {
            /// The number of the request.
            number: u64,
            /// The new process.
            pid: Pid,
        },
        /// The process was not started.
        Refused = 8 {
            /// The number of the request.
            number: u64,
            /// The reason, as human-readable text.
            reason: String,
        },
        /// The caller has given up on a call.
        Abandon = 40 {
            /// The number of the call.
            number: u64,
        },
        /// A request to start a process, unless one was already started with the same key.
        StartKeyed = 41 {
            /// The number for the answer.
            number: u64,
            /// The key.
            key: String,
            /// The entry and its inputs.
            content: Content,
        },
        /// The process was not started: the key belongs to a process of another type.
        KeyTaken = 42 {
            /// The number of the request.
            number: u64,
            /// The type of the process that the key belongs to.
            process: String,
        },
        /// A request to start a child of a supervisor; the child ends with the session. It is answered with the same
        /// envelopes as a [`Start`](Self::Start), but in the data lane, so that the answer arrives before a
        /// [`ChildEnded`](Self::ChildEnded).
        StartChild = 60 {
            /// The number for the answer and for the report of the child's end.
            number: u64,
            /// The entry and its inputs.
            content: Content,
        },
        /// A child of a supervisor of the receiving node has ended.
        ChildEnded = 61 {
            /// The number of the request that started it.
            number: u64,
            /// The type of the message that the child was handling when it failed; empty if it failed elsewhere.
            handling: String,
            /// The encoded reason.
            reason: Bytes,
        },
        /// A question or request to the receiving node about one of its processes, answered with a
        /// [`Told`](Self::Told).
        Ask = 62 {
            /// The number for the answer. Zero if no one waits for the answer; the node then answers only if it denies
            /// the request.
            number: u64,
            /// The process.
            to: Pid,
            /// The question or request.
            ask: AskKind,
            /// The encoded reason of an [`AskKind::Cancel`].
            reason: Bytes,
        },
        /// The answer to an [`Ask`](Self::Ask), and to a start that the node denies or has no room for.
        Told = 63 {
            /// The number of the request.
            number: u64,
            /// The result.
            told: ToldKind,
            /// The encoded snapshot of a [`ToldKind::Info`].
            bytes: Bytes,
        },
        /// An encoded message of groups, eventual names or keys.
        Directory = 50 {
            /// The message.
            message: Bytes,
        },
    }
}

/// An encoded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The position of the message or entry in the sender's table.
    pub message: u16,
    /// The encoded value.
    pub bytes: Bytes,
}

impl Envelope {
    /// Accepts all envelopes whose fields could be decoded.
    fn check(&self) -> Result<(), WireError> {
        Ok(())
    }
}

impl Field for Content {
    fn length(&self) -> usize {
        2 + self.bytes.len()
    }

    fn put(&self, to: &mut BytesMut) {
        self.message.put(to);
        self.bytes.put(to);
    }

    fn take(from: &mut Bytes) -> Result<Self, WireError> {
        Ok(Self { message: u16::take(from)?, bytes: Bytes::take(from)? })
    }
}

/// Encoded in milliseconds. Zero stands for `None`, so a time of less than a millisecond is encoded as one.
impl Field for Option<Duration> {
    fn length(&self) -> usize {
        8
    }

    fn put(&self, to: &mut BytesMut) {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        self.map_or(0, milliseconds).put(to);
    }

    fn take(from: &mut Bytes) -> Result<Self, WireError> {
        Ok(NonZeroU64::new(u64::take(from)?).map(|left| Duration::from_millis(left.get())))
    }
}

codes! {
    /// The kind of a message of the link protocol.
    pub enum LinkKind {
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

codes! {
    /// The kind of a question or request to a node.
    pub enum AskKind {
        /// Requests a snapshot of a process.
        Info = 0,
        /// Stops the process after it has handled the messages that have arrived.
        Stop = 1,
        /// Cancels the process, which cleans up before it ends.
        Cancel = 2,
        /// Kills the process at once.
        Kill = 3,
    }
}

codes! {
    /// The result of a request.
    pub enum ToldKind {
        /// The request was passed to the process.
        Done = 0,
        /// The process does not exist.
        Gone = 1,
        /// The node does not allow the request.
        Denied = 2,
        /// The snapshot follows.
        Info = 3,
        /// The answer to a start: too many starts that this peer requested are waiting already.
        Full = 4,
    }
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
            Envelope::Directory { message: Bytes::from_static(b"\x01") },
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

    /// Catches: a field that is missing on the wire, or whose length is not checked.
    #[test]
    fn an_envelope_that_is_cut_is_refused() {
        let fixed = |envelope: &Envelope| match envelope {
            Envelope::Message { .. } => 1 + 16 + 2,
            Envelope::Call { .. } => 1 + 16 + 16 + 2,
            Envelope::Answer { .. } | Envelope::Start { .. } | Envelope::StartChild { .. } => 1 + 8 + 2,
            Envelope::Failed { .. } | Envelope::Abandon { .. } => 1 + 8,
            Envelope::ChildEnded { handling: text, .. }
            | Envelope::Refused { reason: text, .. }
            | Envelope::KeyTaken { process: text, .. } => 1 + 8 + 2 + text.len(),
            Envelope::StartKeyed { key, .. } => 1 + 8 + 2 + key.len() + 2,
            Envelope::Link { .. } => 1 + 32 + 9,
            Envelope::Started { .. } => 1 + 8 + 16,
            Envelope::Ask { .. } => 1 + 8 + 16 + 1,
            Envelope::Told { .. } => 1 + 8 + 1,
            Envelope::Directory { .. } => 1,
        };
        for envelope in one_of_each() {
            let bytes = envelope.encode();
            for length in 0..bytes.len() {
                let cut = Envelope::decode(bytes.slice(..length));
                assert_eq!(cut == Err(WireError::Truncated), length < fixed(&envelope), "{envelope:?} at {length}");
            }
        }
    }

    #[test]
    fn what_is_no_envelope_is_refused_with_its_reason() {
        let decode = |bytes: &[u8]| Envelope::decode(Bytes::copy_from_slice(bytes));
        assert_eq!(decode(&[9]), Err(WireError::Kind { what: "Envelope", code: 9 }));
        assert_eq!(decode(&[&[0_u8][..], &[0; 19]].concat()), Err(WireError::Pid));
        let link = one_of_each().into_iter().find(|envelope| matches!(envelope, Envelope::Link { .. })).unwrap();
        let mut bytes = link.encode().to_vec();
        bytes[33] = 8;
        assert_eq!(decode(&bytes), Err(WireError::Kind { what: "LinkKind", code: 8 }));
        assert_eq!(decode(&[&[8_u8][..], &[0; 8], &[0, 1, 0xff]].concat()), Err(WireError::NotText));
    }

    #[test]
    fn a_deadline_that_has_just_passed_does_not_become_none() {
        let content = Content { message: 0, bytes: Bytes::new() };
        let call = Envelope::Call { to: pid(1), number: 1, time_left: Some(Duration::ZERO), content };
        let Ok(Envelope::Call { time_left, .. }) = Envelope::decode(call.encode()) else { panic!("a call") };
        assert_eq!(time_left, Some(Duration::from_millis(1)));
    }

    /// Checks that accepted bytes are encoded to the same bytes again: each envelope has a single encoding.
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
