//! Errors of encoding, decoding and exporting messages.

use super::format::Fault;
use super::guard::MAX_DEPTH;
use super::message::{MAX_MESSAGE, MessageId};
use crate::frame::TableError;
use postroom::error::EntryError;

/// Why a message, an answer or the inputs of an entry could not be encoded for another node, or decoded from it.
///
/// The error concerns only that message: the session continues.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// No exported process has a message of this type.
    #[error(
        "a `{type_name}` cannot travel to another node: it is no message of an exported process; write \
         `#[process(remote)]` before the `impl` that handles it, and export the process on both nodes"
    )]
    NotRemote {
        /// The type.
        type_name: &'static str,
    },
    /// The other node does not know the message, or this node does not know the message that arrived.
    #[error("`{name}` is not known {}; export its process there, from a build that has it", place(*here))]
    Unknown {
        /// The name of the message.
        name: String,
        /// True if this node does not know the message, false if the other node does not.
        here: bool,
    },
    /// A number does not belong to any message.
    #[error("{id} is not in the peer's table of {length} messages; check who may publish to this node")]
    NoSuchId {
        /// The number.
        id: MessageId,
        /// The length of the table.
        length: usize,
    },
    /// The fields or the answer of the message differ between the nodes.
    #[error(
        "`{name}` has other fields or another answer on the other node (hash {here:016x} here, {there:016x} there); \
         run one build on both, or write `#[message(codec = \"named\")]` in both, and `#[serde(default)]` at new fields"
    )]
    Incompatible {
        /// The name of the message.
        name: String,
        /// The hash of names and types on this node.
        here: u64,
        /// The hash of names and types on the other node.
        there: u64,
    },
    /// A message arrived where an entry was expected, or the reverse.
    #[error("`{name}` is {came}, not {expected}; check that both nodes run compatible builds")]
    Kind {
        /// The name of the message or entry.
        name: String,
        /// Either "a message" or "an entry".
        expected: &'static str,
        /// Whichever of the two arrived instead.
        came: &'static str,
    },
    /// The value is too long.
    #[error("`{name}` takes {bytes} bytes, and at most {MAX_MESSAGE} travel; send it in parts, or a reference to it")]
    TooLong {
        /// The name of the message.
        name: String,
        /// Its encoded length in bytes.
        bytes: usize,
    },
    /// The value is nested too deeply.
    #[error(
        "`{name}` came with values nested more than {MAX_DEPTH} levels deep; send what is deeper as a list, or check \
         who may publish to this node"
    )]
    TooDeep {
        /// The name of the message.
        name: String,
    },
    /// A list claims more elements than the bytes can hold.
    #[error(
        "`{name}` came with a list that claims more elements than its bytes hold; check who may publish to this node"
    )]
    TooManyElements {
        /// The name of the message.
        name: String,
    },
    /// Bytes follow the end of the value.
    #[error("{left} bytes follow the end of `{name}`; check that both nodes run compatible builds")]
    Trailing {
        /// The name of the message.
        name: String,
        /// Number of bytes.
        left: usize,
    },
    /// The bytes name a codec other than that of the message.
    #[error(
        "`{name}` came with {}, and is read with codec {expected}; check that both nodes run compatible builds",
        came.map_or_else(|| "no codec".to_owned(), |came| format!("codec {came}"))
    )]
    Codec {
        /// The name of the message.
        name: String,
        /// The codec of the message on this node.
        expected: u8,
        /// The codec that the bytes name; `None` if there are no bytes.
        came: Option<u8>,
    },
    /// The codec, or the type's own code, cannot write the value.
    #[error("`{name}` cannot be written: {text}; give it a form that serde can write, or keep it on its node")]
    Unwritable {
        /// The name of the message.
        name: String,
        /// The error text, shortened.
        text: String,
    },
    /// The codec, or the type's own code, cannot read the bytes.
    #[error("`{name}` came as bytes that cannot be read: {text}; check that both nodes run compatible builds")]
    Unreadable {
        /// The name of the message.
        name: String,
        /// The error text, shortened.
        text: String,
    },
    /// The type's own code panicked.
    #[error("the code that writes or reads `{name}` panicked: {text}; have it return an error instead")]
    Panicked {
        /// The name of the message.
        name: String,
        /// The text of the panic, shortened.
        text: String,
    },
    /// The answer does not belong to the message.
    #[error(
        "`{name}` is answered with a `{expected}`, not with a `{came}`; make the types of method and call the same"
    )]
    Answer {
        /// The name of the message.
        name: String,
        /// The expected type of the answer's payload.
        expected: &'static str,
        /// The type that the payload has.
        came: &'static str,
    },
    /// No process with this name is exported. For an exported process without the entry, see [`EntryError::Unknown`].
    #[error("no exported process has an entry `{entry}` of `{process}`; export it with `export::<{process}>()`")]
    NoSuchEntry {
        /// The name of the process's type.
        process: String,
        /// The name of the entry.
        entry: String,
    },
    /// The inputs do not fit the entry.
    #[error(transparent)]
    Inputs(#[from] EntryError),
}

impl CodecError {
    /// Returns the name of the message or type that the error is about, if it has one.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Unknown { name, .. }
            | Self::Incompatible { name, .. }
            | Self::Kind { name, .. }
            | Self::TooLong { name, .. }
            | Self::TooDeep { name }
            | Self::TooManyElements { name }
            | Self::Trailing { name, .. }
            | Self::Codec { name, .. }
            | Self::Unwritable { name, .. }
            | Self::Unreadable { name, .. }
            | Self::Panicked { name, .. }
            | Self::Answer { name, .. } => Some(name),
            Self::NotRemote { type_name } => Some(type_name),
            Self::NoSuchId { .. } | Self::NoSuchEntry { .. } | Self::Inputs(_) => None,
        }
    }
}

fn place(here: bool) -> &'static str {
    if here { "on this node" } else { "on the other node" }
}

impl CodecError {
    /// Returns the error for a value that could not be written.
    pub(super) fn of_writing(name: &str, fault: Fault) -> Self {
        match fault {
            Fault::Text(text) => Self::Unwritable { name: name.to_owned(), text },
            other => Self::of_reading(name, other),
        }
    }

    /// Returns the error for a value that could not be read.
    pub(super) fn of_reading(name: &str, fault: Fault) -> Self {
        let name = name.to_owned();
        match fault {
            Fault::TooLong(bytes) => Self::TooLong { name, bytes },
            Fault::TooDeep => Self::TooDeep { name },
            Fault::TooManyElements => Self::TooManyElements { name },
            Fault::Trailing(left) => Self::Trailing { name, left },
            Fault::Codec { expected, came } => Self::Codec { name, expected, came },
            Fault::Text(text) => Self::Unreadable { name, text },
            Fault::Panicked(text) => Self::Panicked { name, text },
        }
    }
}

/// Why processes cannot be exported together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// Two messages have the same name.
    #[error(
        "two messages are called `{name}`: `{one}` and `{other}`; give one of them another name with \
         `#[message(name = \"…\")]`"
    )]
    Message {
        /// The name.
        name: &'static str,
        /// The type of the first.
        one: &'static str,
        /// The type of the second.
        other: &'static str,
    },
    /// Two processes have the same name.
    #[error(
        "two exported processes are called `{process}` and have an entry `{entry}`; give one of them another name \
         with `#[process(name = \"…\")]`"
    )]
    Process {
        /// The name of both types.
        process: &'static str,
        /// The entry.
        entry: &'static str,
    },
    /// The table of names does not fit into a handshake.
    #[error(transparent)]
    Table(#[from] TableError),
}
