//! Envelopes: what one message of a [session](crate::session) contains.
//!
//! A session carries bytes, in order and exactly once. An envelope says what they are: a message for a process, a call,
//! the answer to one, a link, a request to start a process. Its declaration is its format: numbers are big-endian, a
//! PID is 16 bytes, a text is preceded by its length in two bytes, and content is all that is left.
//!
//! A message, an answer and the inputs of a start are named by their place in the *sender's*
//! [`Table`](crate::frame::Table), which the handshake has brought, so names do not travel again. Reasons and errors
//! are encoded as [`codec`](crate::codec) does.

pub use crate::wire::WireError;
use crate::wire::{Field, codes, messages};
use bytes::{Bytes, BytesMut};
use postroom::Pid;
use std::num::NonZeroU64;
use std::time::Duration;

messages! {
    /// What one message of a session contains.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Envelope {
        /// A message that was sent.
        Message = 0 {
            /// The process.
            to: Pid,
            /// The message.
            content: Content,
        },
        /// A message that was called.
        Call = 1 {
            /// The process.
            to: Pid,
            /// The number that the answer is to have.
            number: u64,
            /// How long the caller will wait, if it has a deadline. Clocks of two nodes have nothing in common, so the
            /// deadline itself cannot travel; the time on its way is not counted.
            time_left: Option<Duration>,
            /// The message.
            content: Content,
        },
        /// The answer to a call. The caller knows what it has called.
        Answer = 2 {
            /// The call's number.
            number: u64,
            /// The value.
            content: Content,
        },
        /// The answer to a call that failed.
        Failed = 3 {
            /// The call's number.
            number: u64,
            /// The encoded error.
            error: Bytes,
        },
        /// A message of the link protocol.
        Link = 4 {
            /// The process that it comes from, a process of the sending node.
            from: Pid,
            /// The process that it is for.
            to: Pid,
            /// What it says.
            link: LinkKind,
            /// The number of the unlink or of the monitor; zero if it has none.
            number: u64,
            /// The encoded exit reason, of those that have one.
            reason: Bytes,
        },
        /// A request to start a process.
        Start = 6 {
            /// The number that the answer is to have.
            number: u64,
            /// The entry and its inputs.
            content: Content,
        },
        /// The process was started.
        Started = 7 {
            /// The request's number.
            number: u64,
            /// The process.
            pid: Pid,
        },
        /// The process was not started.
        Refused = 8 {
            /// The request's number.
            number: u64,
            /// Why, for people.
            reason: String,
        },
        /// The caller of a call has given up.
        Abandon = 40 {
            /// The call's number.
            number: u64,
        },
        /// A request to start a process, unless one was started with the same key.
        StartKeyed = 41 {
            /// The number that the answer is to have.
            number: u64,
            /// The key.
            key: String,
            /// The entry and its inputs.
            content: Content,
        },
        /// The process was not started: the key belongs to one of another type.
        KeyTaken = 42 {
            /// The request's number.
            number: u64,
            /// The type of that process.
            process: String,
        },
        /// A request to start the child of a supervisor, which ends with the session. Answered like a start, in the
        /// data lane.
        StartChild = 60 {
            /// The number that the answer and the end are to have.
            number: u64,
            /// The entry and its inputs.
            content: Content,
        },
        /// A child of a supervisor of the receiving node has ended.
        ChildEnded = 61 {
            /// The number of its start.
            number: u64,
            /// The type of the message in which it failed; empty, if it did not in one.
            handling: String,
            /// The encoded reason.
            reason: Bytes,
        },
        /// Something that is asked of the node about one of its processes, and answered.
        Ask = 62 {
            /// The number that the answer is to have. Zero if no one waits for one: then the only answer is that the
            /// node does not allow it.
            number: u64,
            /// The process.
            to: Pid,
            /// What is asked.
            ask: AskKind,
            /// The encoded reason, of [`AskKind::Cancel`].
            reason: Bytes,
        },
        /// The answer; to a start too, if the node does not allow it, or has too many.
        Told = 63 {
            /// The number of the request.
            number: u64,
            /// What came of it.
            told: ToldKind,
            /// The encoded snapshot, of [`ToldKind::Info`].
            bytes: Bytes,
        },
        /// A message of groups, eventual names or keys, encoded.
        Directory = 50 {
            /// The message.
            message: Bytes,
        },
    }
}

/// An encoded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The place of its message, or entry, in the sender's table.
    pub message: u16,
    /// The value.
    pub bytes: Bytes,
}

impl Envelope {
    /// Any fields that can be decoded are an envelope.
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

/// In milliseconds. Zero stands for none, so a time that is nearly over is one.
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
    /// What a message of the link protocol says.
    pub enum LinkKind {
        /// We are linked now.
        Link = 0,
        /// We are no longer linked; answer with the number.
        Unlink = 1,
        /// The answer to an unlink.
        Unlinked = 2,
        /// Tell me of your end, under the number.
        Watch = 3,
        /// Stop watching for me.
        Unwatch = 4,
        /// I have ended, and you watched me.
        Down = 5,
        /// I have ended, and we were linked.
        Exit = 6,
        /// As `Exit`, for a partner that does not trap exits.
        Failed = 7,
    }
}

codes! {
    /// What is asked of a node, with an answer.
    pub enum AskKind {
        /// A snapshot of a process.
        Info = 0,
        /// Stop, after the messages that have arrived.
        Stop = 1,
        /// End, after cleaning up.
        Cancel = 2,
        /// End at once.
        Kill = 3,
    }
}

codes! {
    /// What came of it.
    pub enum ToldKind {
        /// The process was told.
        Done = 0,
        /// There is no such process.
        Gone = 1,
        /// The node does not allow it.
        Denied = 2,
        /// The snapshot.
        Info = 3,
        /// Of a start: too many of this peer's wait already.
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

    /// Catches: a field that is missing on the wire, or not checked for its length.
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

    /// What is accepted encodes to the same bytes: there is one form of each envelope.
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
