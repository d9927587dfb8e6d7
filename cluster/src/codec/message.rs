//! What travels: messages, answers and starts, as bytes and numbers.

use bytes::Bytes;
use postroom::Payloads;
use std::fmt;

/// The most bytes of a message, an answer or the inputs of an entry, with the byte of the codec.
pub const MAX_MESSAGE: usize = 16 << 20;

/// The number of a message or entry: its position in the [`Table`](crate::frame::Table) of the node that writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u16);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message number {}", self.0)
    }
}

/// A message, an answer or inputs, as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Which it is, for the reader.
    pub id: MessageId,
    /// The codec, then the value.
    pub bytes: Bytes,
}

/// The start of a process that a peer asks for: the arguments of [`Host::start`](postroom::Host::start).
#[derive(Debug)]
pub struct DecodedStart {
    /// The name of the process's type.
    pub process: &'static str,
    /// The name of the entry.
    pub entry: &'static str,
    /// The inputs.
    pub inputs: Payloads,
}
