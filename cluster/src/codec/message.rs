//! Encoded messages, answers and starts.

use bytes::Bytes;
use postroom::Payloads;
use std::fmt;

/// The maximum length in bytes of an encoded message, answer or set of inputs, including the codec byte.
pub const MAX_MESSAGE: usize = 16 << 20;

/// The number of a message or entry: its position in the [`Table`](crate::frame::Table) of the node that writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u16);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message number {}", self.0)
    }
}

/// An encoded message, answer or set of inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The number of the message or entry, for the reader.
    pub id: MessageId,
    /// The codec byte, then the value.
    pub bytes: Bytes,
}

/// A peer's request to start a process: the arguments of [`Host::start`](postroom::Host::start).
#[derive(Debug)]
pub struct DecodedStart {
    /// The name of the process's type.
    pub process: &'static str,
    /// The name of the entry.
    pub entry: &'static str,
    /// The inputs.
    pub inputs: Payloads,
}
