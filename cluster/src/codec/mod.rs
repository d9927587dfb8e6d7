//! Codecs for the messages, answers and inputs of the processes that a node exports.
//!
//! A process type with `#[process(remote)]` describes its messages to a visitor ([`postroom::remote`]). For each
//! message, [`Codecs`] keeps a name, a hash of the names and types of its fields, and functions that write and read it.
//! Two nodes exchange the names and hashes as a [`Table`]; the [`Agreement`] of both tables writes and reads the
//! messages between them:
//!
//! ```
//! use postroom::prelude::*;
//! use postroom_cluster::codec::Codecs;
//!
//! #[process]
//! #[derive(Default)]
//! struct Account { balance: i64 }
//!
//! #[process(remote)]
//! impl Account {
//!     #[entry]
//!     fn serve(&mut self, opening: i64) { self.balance = opening; }
//!     #[message]
//!     fn deposit(&mut self, amount: i64) -> i64 { self.balance += amount; self.balance }
//! }
//!
//! // Both nodes, in one program for this example.
//! let here = Codecs::builder().export::<Account>().build()?;
//! let there = Codecs::builder().export::<Account>().build()?;
//! let (to_there, to_here) = (here.agree(there.table()), there.agree(here.table()));
//!
//! let mut message = Payload::new(AccountDeposit { amount: 5 });
//! let sent = to_there.encode(&mut message)?;
//! assert_eq!(&sent.bytes[..], [1, 10]); // the codec, and five as a variable-length integer
//!
//! let (asked, message) = to_here.decode(sent.id, &sent.bytes)?;
//! assert_eq!(message.take::<AccountDeposit>().map(|message| message.amount).ok(), Some(5));
//!
//! // The payload of an answer contains a `Result` even if the method returns none.
//! let mut answer = Payload::new(Ok::<i64, std::convert::Infallible>(105));
//! let sent = to_here.encode_answer(asked, &mut answer)?;
//! let answer = to_there.decode_answer(sent.id, &sent.bytes)?;
//! assert_eq!(answer.take::<Result<i64, std::convert::Infallible>>().ok(), Some(Ok(105)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Formats
//! The first byte names the codec: 1 is postcard, with the fields in their order; 2 is MessagePack with the names of
//! the fields, for messages with `#[message(codec = "named")]`. PIDs and addresses take 16 bytes in postcard.
//!
//! # Versions
//! Nodes with different builds compare hashes. The hash covers the text of the method's signature, so it changes if
//! `i64` becomes `u64`, or `Money` becomes `money::Money`, but *it does not see into* `Money`: a type whose own fields
//! may change belongs in a message with named fields, or under a new name. A message from an older or newer node with
//! other fields is refused with [`CodecError::Incompatible`], unless its fields are named on both nodes.
//!
//! # Protection against hostile bytes
//! Bytes may come from any program that is allowed to publish to this node.
//! * Values nest at most [`MAX_DEPTH`] levels deep, so that no message overflows the stack.
//! * A list reserves no memory for the length that it claims, and its elements are limited by the bytes present.
//! * A value must use up all bytes of its message, and a message has at most [`MAX_MESSAGE`] bytes.
//! * A panic in a type's own code becomes an error of that message, like an error that the code returns.
//!
//! The process itself has to check whether a value is *acceptable*, for example that an amount is not negative: anyone
//! who may send to the process may send any value of the type. A decoded [`Address`](postroom::Address) may refer to
//! any process; messages to it are checked when they are delivered.

mod agreement;
mod error;
mod form;
mod format;
mod guard;
mod message;
mod reason;
mod report;
pub(crate) mod shape;
mod skew;
#[cfg(test)]
mod tests;

pub use agreement::{Agreement, Compatibility, agree};
pub use error::{CodecError, ExportError};
pub use guard::MAX_DEPTH;
pub use message::{DecodedStart, Encoded, MAX_MESSAGE, MessageId};
pub(crate) use reason::{as_text, kept};
pub use reason::{decode_call_error, decode_exit_reason, encode_call_error, encode_exit_reason};
pub(crate) use skew::{answer_lost, not_taken};

use crate::frame::Table;
use bytes::Bytes;
use form::{Form, FormKind, ValueForm};
use postroom::remote::{Remote, RemoteEntry, RemoteMessage, RemoteValue, RemoteVisitor, WireCodec};
use std::any::{TypeId, type_name};
use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;
use std::sync::Arc;

/// The messages and entries of the processes that a node exports. Cheap to clone.
#[derive(Clone)]
pub struct Codecs(Arc<Exported>);

struct Exported {
    /// Sorted by name, as in the table.
    forms: Box<[Form]>,
    by_type: HashMap<TypeId, Vec<MessageId>>,
    entries: HashMap<(&'static str, &'static str), MessageId>,
    table: Table,
    reports: report::Reports,
}

impl Codecs {
    /// Returns the names of an entry that this node exports, with static lifetime.
    pub(crate) fn entry_names(&self, process: &str, entry: &str) -> Option<(&'static str, &'static str)> {
        self.0.entries.keys().find(|names| **names == (process, entry)).copied()
    }

    /// Returns a builder without processes.
    pub fn builder() -> CodecsBuilder {
        CodecsBuilder { forms: BTreeMap::new(), error: None }
    }

    /// Returns this node's table of messages. The node sends this table to other nodes.
    pub fn table(&self) -> &Table {
        &self.0.table
    }

    /// Logs, once, that a message cannot travel, and why.
    pub(crate) fn report(&self, error: &CodecError) {
        self.0.reports.note(error);
    }

    /// Returns the messages of this type.
    fn of_type(&self, type_id: TypeId) -> &[MessageId] {
        self.0.by_type.get(&type_id).map_or(&[], Vec::as_slice)
    }

    /// Returns whether this is the type of an exported process's message.
    pub(crate) fn has_message(&self, type_id: TypeId) -> bool {
        !self.of_type(type_id).is_empty()
    }

    /// Returns the entries of an exported process.
    pub(crate) fn entries_of(&self, process: &str) -> Vec<&'static str> {
        let entries = self.0.entries.keys().filter(|(name, _)| *name == process);
        let mut entries: Vec<_> = entries.map(|(_, entry)| *entry).collect();
        entries.sort_unstable();
        entries
    }

    fn entry(&self, process: &str, entry: &str) -> Option<MessageId> {
        self.0.entries.get(&(process, entry)).copied()
    }

    /// Returns the form for a number that comes from the tables, and so is in range.
    fn form(&self, id: MessageId) -> &Form {
        &self.0.forms[usize::from(id.0)]
    }

    /// Returns the form for a number that comes from the caller, and so may be out of range.
    fn get(&self, id: MessageId) -> Result<&Form, CodecError> {
        self.0.forms.get(usize::from(id.0)).ok_or(CodecError::NoSuchId { id, length: self.0.forms.len() })
    }
}

impl fmt::Debug for Codecs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.forms.iter().map(|form| form.name)).finish()
    }
}

/// Encodes a value that is not a message of a process.
pub(crate) fn encode_value<T: RemoteValue>(value: &T) -> Result<Bytes, CodecError> {
    format::encode(value, WireCodec::Compact).map_err(|fault| CodecError::of_writing(type_name::<T>(), fault))
}

/// Decodes a value that is not a message of a process.
pub(crate) fn decode_value<T: RemoteValue>(bytes: &[u8]) -> Result<T, CodecError> {
    format::decode(bytes, WireCodec::Compact).map_err(|fault| CodecError::of_reading(type_name::<T>(), fault))
}

/// The builder of [`Codecs`], which collects the processes that a node exports.
#[must_use = "`build` makes the codecs"]
pub struct CodecsBuilder {
    forms: BTreeMap<&'static str, Form>,
    error: Option<ExportError>,
}

impl CodecsBuilder {
    /// Adds the messages and entries of `P`, and those of its protocols that are `#[protocol(remote)]`. Messages that
    /// several processes share are added once.
    pub fn export<P: Remote>(mut self) -> Self {
        P::describe(&mut self);
        self
    }

    /// Builds the codecs.
    ///
    /// # Errors
    /// If two of the exported messages, or two processes, have the same name, or there are too many for a handshake.
    pub fn build(self) -> Result<Codecs, ExportError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let forms: Box<[Form]> = self.forms.into_values().collect();
        let table = Table::new(forms.iter().map(|form| (form.name, form.hash)))?;
        let mut by_type: HashMap<TypeId, Vec<MessageId>> = HashMap::new();
        let mut entries = HashMap::new();
        for (at, form) in forms.iter().enumerate() {
            // A table has fewer than 2^16 names.
            let id = MessageId(at as u16);
            match &form.kind {
                FormKind::Message { message, .. } => by_type.entry(message.type_id).or_default().push(id),
                FormKind::Entry(entry) => {
                    let (process, name) = (entry.process, entry.entry);
                    if entries.insert((process, name), id).is_some() {
                        return Err(ExportError::Process { process, entry: name });
                    }
                }
            }
        }
        Ok(Codecs(Arc::new(Exported { forms, by_type, entries, table, reports: Default::default() })))
    }

    fn add(&mut self, form: Form) {
        match self.forms.entry(form.name) {
            Entry::Vacant(place) => {
                place.insert(form);
            }
            Entry::Occupied(place) if place.get().identity() == form.identity() => {}
            Entry::Occupied(place) => {
                let (name, one, other) = (form.name, place.get().type_name(), form.type_name());
                self.error.get_or_insert(ExportError::Message { name, one, other });
            }
        }
    }
}

impl RemoteVisitor for CodecsBuilder {
    fn message<M: RemoteValue, T: RemoteValue>(&mut self, message: RemoteMessage) {
        self.add(Form::message::<M>(message, ValueForm::infallible::<T>()));
    }

    fn fallible_message<M: RemoteValue, T: RemoteValue, E: RemoteValue>(&mut self, message: RemoteMessage) {
        self.add(Form::message::<M>(message, ValueForm::whole::<Result<T, E>>()));
    }

    fn entry<I: RemoteValue>(&mut self, entry: RemoteEntry<I>) {
        self.add(Form::entry(entry));
    }
}

impl fmt::Debug for CodecsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.forms.keys()).finish()
    }
}
