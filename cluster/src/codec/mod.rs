//! Codecs: messages, answers and inputs as bytes, for the processes that a node exports.
//!
//! A process type with `#[process(remote)]` tells a visitor of its messages ([`postroom::remote`]). For each [`Codecs`]
//! keeps a name, a hash of the names and types of its fields, and functions that write and read it. Two nodes exchange
//! the names and hashes, a [`Table`]; the [`Agreement`] of both tables writes and reads what they say to each other:
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
//! // Both nodes, here in one program.
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
//! // A method without a `Result` answers with a payload that holds one all the same.
//! let mut answer = Payload::new(Ok::<i64, std::convert::Infallible>(105));
//! let sent = to_here.encode_answer(asked, &mut answer)?;
//! let answer = to_there.decode_answer(sent.id, &sent.bytes)?;
//! assert_eq!(answer.take::<Result<i64, std::convert::Infallible>>().ok(), Some(Ok(105)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Formats
//! The first byte names the codec: 1 for postcard, where fields stand in their order, 2 for MessagePack with the names
//! of fields, for messages with `#[message(codec = "named")]`. PIDs and addresses take 16 bytes in postcard.
//!
//! # Versions
//! Nodes whose builds differ compare hashes. The hash covers the text of the method's signature, so it changes with
//! `i64` to `u64`, and with `Money` to `money::Money`; *it does not see into* `Money`: a type whose own fields may
//! change belongs into a message with named fields, or under a new name. The message of an older or newer node with
//! other fields is refused with [`CodecError::Incompatible`], unless its fields are named on both.
//!
//! # What decoding is safe from
//! Bytes come from any program that may publish to this node.
//! * Values nest at most [`MAX_DEPTH`] levels deep, so that no message overflows the stack.
//! * A list that claims a length reserves no memory for it, and its elements are limited by the bytes that are there.
//! * A value takes all of its bytes, and at most [`MAX_MESSAGE`].
//! * A panic in the types' own code is an error of that message, like an error that it returns.
//!
//! What a value is *worth*, such as an amount below zero, is for the process to check: anyone who may speak to it may
//! send it any value of the type. A decoded [`Address`](postroom::Address) may be of any process; its messages are
//! checked when they are delivered.

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
    /// In the order of the names, as in the table.
    forms: Box<[Form]>,
    by_type: HashMap<TypeId, Vec<MessageId>>,
    entries: HashMap<(&'static str, &'static str), MessageId>,
    table: Table,
    reports: report::Reports,
}

impl Codecs {
    /// Returns the names of an entry that this node exports, which live as long as the program.
    pub(crate) fn entry_names(&self, process: &str, entry: &str) -> Option<(&'static str, &'static str)> {
        self.0.entries.keys().find(|names| **names == (process, entry)).copied()
    }

    /// Begins with no processes.
    pub fn builder() -> CodecsBuilder {
        CodecsBuilder { forms: BTreeMap::new(), error: None }
    }

    /// Returns what this node tells others of its messages.
    pub fn table(&self) -> &Table {
        &self.0.table
    }

    /// Has the log say, once, that a message cannot travel, and why.
    pub(crate) fn report(&self, error: &CodecError) {
        self.0.reports.note(error);
    }

    /// Returns the messages of that type.
    fn of_type(&self, type_id: TypeId) -> &[MessageId] {
        self.0.by_type.get(&type_id).map_or(&[], Vec::as_slice)
    }

    /// Returns whether it is a message of an exported process.
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

    /// Returns a form whose number comes from the tables.
    fn form(&self, id: MessageId) -> &Form {
        &self.0.forms[usize::from(id.0)]
    }

    /// Returns the form with a number that the caller has given.
    fn get(&self, id: MessageId) -> Result<&Form, CodecError> {
        self.0.forms.get(usize::from(id.0)).ok_or(CodecError::NoSuchId { id, length: self.0.forms.len() })
    }
}

impl fmt::Debug for Codecs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.forms.iter().map(|form| form.name)).finish()
    }
}

/// Writes a value that is no message of a process.
pub(crate) fn encode_value<T: RemoteValue>(value: &T) -> Result<Bytes, CodecError> {
    format::encode(value, WireCodec::Compact).map_err(|fault| CodecError::of_writing(type_name::<T>(), fault))
}

/// Reads a value that is no message of a process.
pub(crate) fn decode_value<T: RemoteValue>(bytes: &[u8]) -> Result<T, CodecError> {
    format::decode(bytes, WireCodec::Compact).map_err(|fault| CodecError::of_reading(type_name::<T>(), fault))
}

/// Collects the processes that a node exports.
#[must_use = "`build` makes the codecs"]
pub struct CodecsBuilder {
    forms: BTreeMap<&'static str, Form>,
    error: Option<ExportError>,
}

impl CodecsBuilder {
    /// Adds the messages and entries of `P`, and those of its protocols that are `#[protocol(remote)]`. What several
    /// processes share is added once.
    pub fn export<P: Remote>(mut self) -> Self {
        P::describe(&mut self);
        self
    }

    /// Returns the codecs.
    ///
    /// # Errors
    /// If two of the exported messages, or two processes, have one name, or there are too many for a handshake.
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
