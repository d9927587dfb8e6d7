//! The comparison of two nodes' tables, made once at the start of a session, and the encoding that follows from it.

use super::Codecs;
use super::error::CodecError;
use super::form::{Form, FormKind, are_compatible};
use super::format::cut;
use super::message::{DecodedStart, Encoded, MessageId};
use crate::frame::Table;
use postroom::error::EntryError;
use postroom::{Payload, Payloads};
use std::cmp::Ordering;

/// Errors quote at most this many bytes of the name of an entry that does not exist.
const MAX_WRONG_NAME: usize = 80;

/// Whether two nodes can exchange the message with a certain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compatibility {
    /// Both nodes have the message, in compatible forms.
    Compatible,
    /// Both nodes have the message, but with different fields or a different answer.
    Incompatible {
        /// The hash on this node.
        here: u64,
        /// The hash on the other node.
        there: u64,
    },
    /// The other node does not have the message.
    UnknownThere,
    /// This node does not have the message.
    UnknownHere,
}

/// Compares two tables. Returns the result for each name in either of them, sorted by name.
///
/// ```
/// use postroom_cluster::codec::{Compatibility, agree};
/// use postroom_cluster::frame::Table;
///
/// let ours = Table::new([("bank::Account::close", 2), ("bank::Account::deposit", 4)])?;
/// let theirs = Table::new([("bank::Account::deposit", 6), ("bank::Account::open", 8)])?;
/// assert_eq!(agree(&ours, &theirs), [
///     ("bank::Account::close", Compatibility::UnknownThere),
///     ("bank::Account::deposit", Compatibility::Incompatible { here: 4, there: 6 }),
///     ("bank::Account::open", Compatibility::UnknownHere),
/// ]);
/// # Ok::<(), postroom_cluster::frame::TableError>(())
/// ```
pub fn agree<'t>(ours: &'t Table, theirs: &'t Table) -> Vec<(&'t str, Compatibility)> {
    let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
    let mut out = Vec::new();
    loop {
        let order = match (ours.peek(), theirs.peek()) {
            (None, None) => return out,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((one, _)), Some((other, _))) => one.cmp(other),
        };
        let here = ours.next_if(|_| order.is_le());
        let there = theirs.next_if(|_| order.is_ge());
        out.extend(match (here, there) {
            (Some((name, here)), Some((_, there))) if are_compatible(here, there) => {
                Some((name, Compatibility::Compatible))
            }
            (Some((name, here)), Some((_, there))) => Some((name, Compatibility::Incompatible { here, there })),
            (Some((name, _)), None) => Some((name, Compatibility::UnknownThere)),
            (None, Some((name, _))) => Some((name, Compatibility::UnknownHere)),
            (None, None) => None,
        });
    }
}

/// The codecs of this node as one peer understands them, made by [`Codecs::agree`] for the duration of a session.
///
/// A message travels with a number: its position in the table of the node that writes it. The other node has that
/// table, too.
#[derive(Clone, Debug)]
pub struct Agreement {
    codecs: Codecs,
    /// The compatibility of each message of this node.
    ours: Vec<Compatibility>,
    /// For each message of the peer: its name, and its position in this node's table.
    theirs: Vec<(Box<str>, Result<MessageId, Compatibility>)>,
}

impl Codecs {
    /// Returns the agreement with a node that has this table.
    pub fn agree(&self, theirs: &Table) -> Agreement {
        Agreement::new(self, theirs)
    }
}

impl Agreement {
    pub(super) fn new(codecs: &Codecs, table: &Table) -> Self {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for (name, compatibility) in agree(codecs.table(), table) {
            let here = MessageId(ours.len() as u16);
            if compatibility != Compatibility::UnknownThere {
                let at = if compatibility == Compatibility::Compatible { Ok(here) } else { Err(compatibility) };
                theirs.push((name.into(), at));
            }
            if compatibility != Compatibility::UnknownHere {
                ours.push(compatibility);
            }
        }
        Self { codecs: codecs.clone(), ours, theirs }
    }

    /// Encodes a message for the peer. The payload keeps the message.
    ///
    /// # Errors
    /// If it is not a message of an exported process, the peer cannot read it, or it cannot be encoded.
    pub fn encode(&self, payload: &mut Payload) -> Result<Encoded, CodecError> {
        let id = self.id_of(payload)?;
        self.encode_as(id, payload)
    }

    /// Returns the number under which a message is sent to the peer. Peers for which it is the same get the same bytes.
    pub(crate) fn id_of(&self, payload: &Payload) -> Result<MessageId, CodecError> {
        let candidates = self.codecs.of_type(payload.value_type());
        let Some(first) = candidates.first() else {
            return Err(CodecError::NotRemote { type_name: payload.type_name() });
        };
        // Several processes may have a message of this type, under different names. All are decoded alike.
        let usable = candidates.iter().find(|id| self.check(**id).is_ok()).unwrap_or(first);
        self.check(*usable)?;
        Ok(*usable)
    }

    /// Encodes a message with a number from [`id_of`](Self::id_of).
    pub(crate) fn encode_as(&self, id: MessageId, payload: &mut Payload) -> Result<Encoded, CodecError> {
        let form = self.codecs.form(id);
        let FormKind::Message { message, .. } = &form.kind else { return Err(wrong_kind(form, true)) };
        let Some(bytes) = (message.encode)(payload, form.codec) else {
            return Err(CodecError::NotRemote { type_name: payload.type_name() });
        };
        Ok(Encoded { id, bytes: bytes.map_err(|fault| CodecError::of_writing(form.name, fault))? })
    }

    /// Decodes a message from the peer. Also returns its number in this node's table, to be passed to
    /// [`encode_answer`](Self::encode_answer).
    ///
    /// # Errors
    /// If this node does not know the message, or the bytes are not exactly one.
    pub fn decode(&self, theirs: MessageId, bytes: &[u8]) -> Result<(MessageId, Payload), CodecError> {
        let id = self.here(theirs)?;
        let form = self.codecs.form(id);
        let FormKind::Message { message, .. } = &form.kind else { return Err(wrong_kind(form, true)) };
        let payload = (message.decode)(bytes, form.codec).map_err(|fault| CodecError::of_reading(form.name, fault))?;
        Ok((id, payload))
    }

    /// Encodes the answer to the peer's call with the message `asked`. The payload keeps the answer.
    ///
    /// # Errors
    /// If no process answers that message with this type, or the answer cannot be encoded.
    pub fn encode_answer(&self, asked: MessageId, payload: &mut Payload) -> Result<Encoded, CodecError> {
        let form = self.codecs.get(asked)?;
        let FormKind::Message { message, answer: expected } = &form.kind else { return Err(wrong_kind(form, true)) };
        // Processes may answer the same message with different types. The number of the answer tells the other node
        // which type it is.
        let others = self.codecs.of_type(message.type_id).iter().copied();
        for id in [asked].into_iter().chain(others).filter(|id| self.check(*id).is_ok()) {
            let form = self.codecs.form(id);
            let FormKind::Message { answer, .. } = &form.kind else { continue };
            if let Some(bytes) = (answer.encode)(payload, form.codec) {
                let bytes = bytes.map_err(|fault| CodecError::of_writing(form.name, fault))?;
                return Ok(Encoded { id, bytes });
            }
        }
        let (expected, came) = (expected.type_name, payload.type_name());
        Err(CodecError::Answer { name: form.name.to_owned(), expected, came })
    }

    /// Decodes an answer from the peer into the payload that the caller's `Call` opens.
    ///
    /// # Errors
    /// If this node does not know the message, or the bytes are not exactly one answer to it.
    pub fn decode_answer(&self, theirs: MessageId, bytes: &[u8]) -> Result<Payload, CodecError> {
        let form = self.codecs.form(self.here(theirs)?);
        let FormKind::Message { answer, .. } = &form.kind else { return Err(wrong_kind(form, true)) };
        (answer.decode)(bytes, form.codec).map_err(|fault| CodecError::of_reading(form.name, fault))
    }

    /// Encodes the inputs for starting a process on the peer.
    ///
    /// # Errors
    /// If there is no such entry (the error then lists the existing ones), the peer does not have it, the inputs do not
    /// fit it, or they cannot be encoded.
    pub fn encode_inputs(&self, process: &str, entry: &str, inputs: Payloads) -> Result<Encoded, CodecError> {
        let Some(id) = self.codecs.entry(process, entry) else {
            let has: Vec<_> = self.codecs.entries_of(process).into_iter().map(str::to_owned).collect();
            let (process, entry) = (process.to_owned(), cut(entry, MAX_WRONG_NAME).to_owned());
            return Err(match has.is_empty() {
                true => CodecError::NoSuchEntry { process, entry },
                false => EntryError::Unknown { process, entry, has }.into(),
            });
        };
        self.check(id)?;
        let form = self.codecs.form(id);
        let FormKind::Entry(entry) = &form.kind else { return Err(wrong_kind(form, false)) };
        let bytes = (entry.encode)(inputs, form.codec)?;
        Ok(Encoded { id, bytes: bytes.map_err(|fault| CodecError::of_writing(form.name, fault))? })
    }

    /// Decodes the inputs of a start that the peer requests.
    ///
    /// # Errors
    /// If this node does not know the entry, or the bytes are not exactly its inputs.
    pub fn decode_inputs(&self, theirs: MessageId, bytes: &[u8]) -> Result<DecodedStart, CodecError> {
        let form = self.codecs.form(self.here(theirs)?);
        let FormKind::Entry(entry) = &form.kind else { return Err(wrong_kind(form, false)) };
        let inputs = (entry.decode)(bytes, form.codec).map_err(|fault| CodecError::of_reading(form.name, fault))?;
        Ok(DecodedStart { process: entry.process, entry: entry.entry, inputs })
    }

    /// Returns whether the peer can start processes of the type with this name, with at least one of its entries.
    pub fn can_start(&self, process: &str) -> bool {
        let entries = self.codecs.0.entries.iter().filter(|((name, _), _)| *name == process);
        entries.map(|(_, id)| *id).any(|id| self.check(id).is_ok())
    }

    /// Checks that the peer can read this message.
    fn check(&self, id: MessageId) -> Result<(), CodecError> {
        match self.ours.get(usize::from(id.0)) {
            Some(Compatibility::Compatible) => Ok(()),
            Some(other) => Err(refusal(self.codecs.form(id).name, *other)),
            None => Err(CodecError::NoSuchId { id, length: self.ours.len() }),
        }
    }

    /// Returns the position of one of the peer's messages in this node's table.
    fn here(&self, theirs: MessageId) -> Result<MessageId, CodecError> {
        match self.theirs.get(usize::from(theirs.0)) {
            Some((_, Ok(id))) => Ok(*id),
            Some((name, Err(compatibility))) => Err(refusal(name, *compatibility)),
            None => Err(CodecError::NoSuchId { id: theirs, length: self.theirs.len() }),
        }
    }
}

fn refusal(name: &str, compatibility: Compatibility) -> CodecError {
    let name = name.to_owned();
    match compatibility {
        Compatibility::Incompatible { here, there } => CodecError::Incompatible { name, here, there },
        Compatibility::UnknownHere => CodecError::Unknown { name, here: true },
        Compatibility::Compatible | Compatibility::UnknownThere => CodecError::Unknown { name, here: false },
    }
}

/// Returns the error for an entry where a message is expected, or vice versa.
fn wrong_kind(form: &Form, expects_message: bool) -> CodecError {
    let (expected, came) = if expects_message { ("a message", "an entry") } else { ("an entry", "a message") };
    CodecError::Kind { name: form.name.to_owned(), expected, came }
}
